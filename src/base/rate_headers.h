#pragma once

#include <cstdint>
#include <string>

namespace weir {

// The response fields that tell clients about their limits.
enum class HeaderStyle : std::uint8_t {
  ietf,    // RateLimit and RateLimit-Policy, as in the IETF httpapi draft since -08
  legacy,  // the three fields of LegacyHeaders
  both,
  off,
  scg,  // Spring Cloud Gateway's four: X-RateLimit-Remaining, -Requested-Tokens, …
};

// Names of the fields for the limit, the remaining permits, and the time until it is full again.
struct HeaderNames {
  std::string limit = "RateLimit-Limit";
  std::string remaining = "RateLimit-Remaining";
  std::string reset = "RateLimit-Reset";

  friend bool operator==(const HeaderNames&, const HeaderNames&) = default;
};

// The three fields from before the standard. Services differ in what they mean by them.
struct LegacyHeaders {
  HeaderNames names{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"};
  bool reset_is_date = false;  // in seconds since 1970; else in seconds from now

  friend bool operator==(const LegacyHeaders&, const LegacyHeaders&) = default;
};

}  // namespace weir
