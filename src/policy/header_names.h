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

}  // namespace weir::policy
