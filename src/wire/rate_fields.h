#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "weir/decision.h"
#include "weir/time.h"
#include "wire/rate_headers.h"

namespace weir::wire {

// One limit in the RateLimit-Policy field.
struct QuotaPolicy {
  std::string_view name;
  Permits quota = 0;              // the limit's capacity
  std::optional<Nanos> window{};  // the time in which the quota is granted, if the limit has one
  bool concurrent = false;        // it counts concurrent calls
};

// Appends the RateLimit-Policy line, which is the same for every call. Names may hold any bytes.
void append_policy_field(std::string& out, std::span<const QuotaPolicy> policies);

// Appends the lines of `style`, each with its CRLF. `policy_field` is the line of
// append_policy_field, for the styles that have it. The style scg has a function of its own,
// append_scg_fields. `name` and `decision` are those of the tightest limit. `now` is used only if
// the reset is a date.
void append_rate_fields(std::string& out, HeaderStyle style, std::string_view policy_field,
                        std::string_view name, const Decision& decision,
                        const LegacyHeaders& legacy, Instant now);

// The four values of Spring Cloud Gateway's RequestRateLimiter.
struct ScgFields {
  Permits remaining = 0;  // tokens, not calls; -1: there was no decision
  Permits requested = 1;  // tokens per call
  Permits burst = 0;      // burstCapacity
  Permits rate = 0;       // replenishRate: tokens per second
};
void append_scg_fields(std::string& out, const ScgFields& fields);

// Appends Retry-After for a refusal that can pass later; nothing otherwise. The style `off` does
// not turn it off: without it clients would retry at once.
void append_retry_after(std::string& out, const Decision& decision);

// Appends Weir-Wait-Ms for an admitted call that has to wait for its turn; nothing otherwise.
// Proxies see it without parsing the body.
void append_wait(std::string& out, const Decision& decision);

// Seconds, rounded up: 0 only if the duration is not positive.
std::int64_t seconds_up(Nanos duration);

}  // namespace weir::wire
