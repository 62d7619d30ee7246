#pragma once

#include <algorithm>
#include <string_view>

#include "wire/http1_text.h"

namespace weir::gateway {

// True if a server may take a field's name for `known` (lower case, hyphens): servers that map
// fields to variables (CGI, WSGI) do not distinguish hyphens from underscores.
constexpr bool may_be_same_field(std::string_view name, std::string_view known) {
  constexpr auto folded = [](char c) { return c == '_' ? '-' : lower(c); };
  return name.size() == known.size() && std::ranges::equal(name, known, {}, folded, folded);
}

}  // namespace weir::gateway
