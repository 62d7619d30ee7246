#pragma once

#include "core/evaluation.h"
#include "core/rate.h"

namespace weir::core {

// nginx's limit_req to the millisecond, including its truncations: gives migrated configurations
// the same answers (`like: nginx`). Bucket with `queue` is the exact form.
//
// nginx counts in thousandths of a request and whole milliseconds: 1/min becomes 16 thousandths a
// second, which is one request in 62.5 s. nginx's `excess` does not include the request itself; the
// backlog kept here does (excess + 1000), so that a key never seen is all zero.
struct NginxQueue {
  Rate rate{};            // whole requests, a second or a minute
  Permits places = 0;     // burst=
  Permits undelayed = 0;  // delay=; at least `places` for nodelay

  std::int64_t milli_rate = 1000;  // derived: thousandths of a request in a second

  static Result<NginxQueue, Flaw> make(const Rate& rate, Permits places, Permits undelayed);
};

Evaluation decide(const NginxQueue& limit, const State& state, Instant now, const Ask& ask);
Permits remaining(const NginxQueue& limit, const State& state, Instant now);
Instant rest_at(const NginxQueue& limit, const State& state, Instant now);
State debit(const NginxQueue& limit, const State& state, Instant now, Permits cost);
State refund(const NginxQueue& limit, const State& state, Instant now, Receipt& receipt,
             Permits back);
// The largest backlog, in thousandths, with which the call passes; -1 if it never passes. For
// stores that decide elsewhere.
std::int64_t max_backlog(const NginxQueue& limit, const Ask& ask);
inline Permits capacity(const NginxQueue& limit) { return limit.places + 1; }

}  // namespace weir::core
