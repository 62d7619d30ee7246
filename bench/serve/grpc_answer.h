#pragma once

#include <string_view>

// The answer of every bare server: a RateLimitResponse for one descriptor, and the same with the
// five-byte prefix of gRPC.

using namespace std::string_view_literals;

inline constexpr std::string_view kMethod =
    "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
// overall_code OK; one status: OK of 1000000 a minute, 999999 remaining, 30 seconds until the
// reset.
inline constexpr std::string_view kFramedAnswer =
    "\0\0\0\0\x16"
    "\x08\x01"
    "\x12\x12\x08\x01\x12\x06\x08\xc0\x84\x3d\x10\x02\x18\xbf\x84\x3d\x22\x02\x08\x1e"sv;
inline constexpr std::string_view kAnswer = kFramedAnswer.substr(5);
static_assert(kAnswer.size() == 0x16 && kAnswer.size() == 4u + 0x12);
