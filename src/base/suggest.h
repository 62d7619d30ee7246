#pragma once

#include <span>
#include <string>
#include <string_view>

namespace weir {

// The one of `known` that `typed` was most likely meant to be; empty if none is near.
std::string_view nearest(std::string_view typed, std::span<const std::string_view> known);

// ` (did you mean "x"?)`, or nothing if nothing is near.
std::string did_you_mean(std::string_view typed, std::span<const std::string_view> known);

}  // namespace weir
