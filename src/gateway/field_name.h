#pragma once

#include <algorithm>
#include <string_view>

#include "wire/http1_text.h"

namespace weir::gateway {

// Whether some service may take a field's name for `known`, which is in lower case and has hyphens:
// those that make variables of fields do not tell a hyphen from an underscore.
constexpr bool same_to_some(std::string_view name, std::string_view known) {
  constexpr auto folded = [](char c) { return c == '_' ? '-' : lower(c); };
  return name.size() == known.size() && std::ranges::equal(name, known, {}, folded, folded);
}

}  // namespace weir::gateway
