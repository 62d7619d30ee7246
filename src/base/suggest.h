#pragma once

#include <span>
#include <string>
#include <string_view>

namespace weir {

// The word of `known` with the smallest edit distance to `typed`; empty if none is similar.
std::string_view nearest(std::string_view typed, std::span<const std::string_view> known);

// ` (did you mean "x"?)`, or an empty text if no word is similar.
std::string did_you_mean(std::string_view typed, std::span<const std::string_view> known);

}  // namespace weir
