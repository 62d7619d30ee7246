#pragma once

#include <string>

namespace weir::policy {

// What those fields are called by which clients of a proxy are told of the limit of a call.
struct HeaderNames {
  std::string limit = "RateLimit-Limit";
  std::string remaining = "RateLimit-Remaining";
  std::string reset = "RateLimit-Reset";

  friend bool operator==(const HeaderNames&, const HeaderNames&) = default;
};

// The three that were there before the standard. No two services mean the same by them.
struct LegacyHeaders {
  HeaderNames names{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"};
  bool reset_is_date = false;  // in seconds since 1970; else in seconds from now

  friend bool operator==(const LegacyHeaders&, const LegacyHeaders&) = default;
};

}  // namespace weir::policy
