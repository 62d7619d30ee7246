#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "weir/decision.h"
#include "weir/time.h"

namespace weir::wire {

// Which fields tell clients about their limits.
enum class RateFieldStyle {
  ietf,    // RateLimit and RateLimit-Policy, as the httpapi draft has them since -08
  legacy,  // X-RateLimit-Limit, -Remaining, -Reset, or as LegacyFields says
  both,
  off,
};

struct LegacyFields {
  std::string_view limit = "X-RateLimit-Limit";
  std::string_view remaining = "X-RateLimit-Remaining";
  std::string_view reset = "X-RateLimit-Reset";  // in seconds from now
  std::optional<Instant> now{};                  // then it is a date, in seconds since 1970
};

// One limit as RateLimit-Policy lists it.
struct QuotaPolicy {
  std::string_view name;
  Permits quota = 0;              // its capacity
  std::optional<Nanos> window{};  // in which that much is granted, where there is such a time
  bool concurrent = false;        // it counts calls that are under way
};

// The RateLimit-Policy line, which is the same for every call. Names may hold any bytes.
void append_policy_field(std::string& out, std::span<const QuotaPolicy> policies);

// Appends the lines of `style`, each with its CRLF, `policy_field` among them if it is one of them.
// `name` and `decision` are those of the tightest limit, the one that is worth telling.
void append_rate_fields(std::string& out, RateFieldStyle style, std::string_view policy_field,
                        std::string_view name, const Decision& decision,
                        const LegacyFields& legacy = {});

// What Spring Cloud Gateway's RequestRateLimiter tells, all four of it.
struct ScgFields {
  Permits remaining = 0;  // tokens, not calls; -1: nobody could be asked
  Permits requested = 1;  // tokens that a call takes
  Permits burst = 0;      // its burstCapacity
  Permits rate = 0;       // its replenishRate: tokens a second
};
void append_scg_fields(std::string& out, const ScgFields& fields);

// Retry-After, for a refusal that passes with time; nothing for others. Not one of the fields that
// `off` turns off: without it clients would hammer.
void append_retry_after(std::string& out, const Decision& decision);

// Whole seconds, rounded up: never 0 when it is more.
std::int64_t seconds_up(Nanos duration);

}  // namespace weir::wire
