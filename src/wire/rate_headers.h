#pragma once

#include <cstdint>
#include <string>

namespace weir::wire {

// The response headers that tell clients about their limits.
enum class HeaderStyle : std::uint8_t {
  ietf,    // RateLimit and RateLimit-Policy of the IETF httpapi draft, since -08
  legacy,  // the three of LegacyHeaders
  both,
  off,
  scg,  // Spring Cloud Gateway's four: X-RateLimit-Remaining, -Requested-Tokens, …
};

// Header names for the limit, the remaining permits, and the time until the limit is full again.
struct HeaderNames {
  std::string limit = "RateLimit-Limit";
  std::string remaining = "RateLimit-Remaining";
  std::string reset = "RateLimit-Reset";

  friend bool operator==(const HeaderNames&, const HeaderNames&) = default;
};

// The headers in use before the IETF draft. Their meaning differs between services.
struct LegacyHeaders {
  HeaderNames names{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"};
  bool reset_is_date = false;  // true: Unix time in seconds; false: seconds from now

  friend bool operator==(const LegacyHeaders&, const LegacyHeaders&) = default;
};

}  // namespace weir::wire
