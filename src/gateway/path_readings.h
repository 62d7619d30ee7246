#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::gateway {

// All paths that servers may decode a sent path to, apart from its usual reading. Servers may drop
// path parameters (;v=1), take \, %2F and %5C for a slash, merge slashes, decode escapes of
// unreserved characters (%61), decode twice (%2561), and truncate at %3F or %23. Each of these may
// happen or not, in any order, with at most two rounds of decoding.
//
// Empty if all servers agree. Nullopt if the request must be refused: a server may find a dot
// segment or a control character, or there are too many readings to compare.
std::optional<std::vector<std::string>> other_readings(std::string_view sent);

}  // namespace weir::gateway
