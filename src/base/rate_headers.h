#pragma once

#include <cstdint>
#include <string>

namespace weir {

// Which fields of an answer tell clients about their limits.
enum class HeaderStyle : std::uint8_t {
  ietf,    // RateLimit and RateLimit-Policy, as the httpapi draft has them since -08
  legacy,  // the three of LegacyHeaders
  both,
  off,
  scg,  // Spring Cloud Gateway's four: X-RateLimit-Remaining, -Requested-Tokens, …
};

// What a limit, what is left of it, and when it is whole again are called.
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

}  // namespace weir
