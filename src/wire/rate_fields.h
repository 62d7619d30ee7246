#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/rate_headers.h"
#include "weir/decision.h"
#include "weir/time.h"

namespace weir::wire {

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
// (Not those of scg: see append_scg_fields.) `name` and `decision` are those of the tightest limit,
// the one that is worth telling. `now` is looked at only where the reset is told as a date.
void append_rate_fields(std::string& out, HeaderStyle style, std::string_view policy_field,
                        std::string_view name, const Decision& decision,
                        const LegacyHeaders& legacy, Instant now);

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

// Weir-Wait-Ms, for an admitted call that has to wait for its turn; nothing for others. Proxies
// that ask by header see it without reading the body.
void append_wait(std::string& out, const Decision& decision);

// Whole seconds, rounded up: never 0 when it is more.
std::int64_t seconds_up(Nanos duration);

}  // namespace weir::wire
