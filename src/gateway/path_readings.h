#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::gateway {

// The paths that servers may take a sent path for, apart from its usual reading. Servers differ in
// whether they drop path parameters (;v=1), take \, %2F and %5C for a slash, merge slashes, decode
// escapes of plain characters (%61), decode twice (%2561), and cut a path at %3F or %23. Each of
// these happens or not, in any order, with at most two decodings.
//
// Empty if all of them read it alike. Nothing if the path must be refused: a server may find a dot
// segment or a control character in it, or there are too many readings to compare them all.
std::optional<std::vector<std::string>> other_readings(std::string_view sent);

}  // namespace weir::gateway
