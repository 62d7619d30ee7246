#pragma once

#include "core/evaluation.h"
#include "core/rate.h"

namespace weir::core {

// CL.THROTTLE of redis-cell, including its truncations: the price is rounded down to whole
// nanoseconds, and `remaining` is computed in microseconds. The state is only the theoretical
// arrival time, so a call with other parameters continues from the same instant, whatever that
// means in permits. For compatibility only: new limits should be buckets.
//
// A negative cost lowers the debt. In redis-cell, lowering it by more than the debt is an error
// that leaves the bucket full; here the outcome is `impossible`, and the state is left full as
// well.
struct RedisCell {
  Permits capacity = 1;  // the max_burst parameter plus one
  Nanos price{1};
  Nanos depth{1};

  // `count` permits per period, and `burst` more than one at once.
  static Result<RedisCell, Flaw> make(Permits burst, Permits count, Permits period_seconds);
};

Evaluation decide(const RedisCell& limit, const State& state, Instant now, const Ask& ask);
Permits remaining(const RedisCell& limit, const State& state, Instant now);
Instant rest_at(const RedisCell& limit, const State& state, Instant now);
State debit(const RedisCell& limit, const State& state, Instant now, Permits cost);
State refund(const RedisCell& limit, const State& state, Instant now, Receipt& receipt,
             Permits back);
inline Permits capacity(const RedisCell& limit) { return limit.capacity; }

}  // namespace weir::core
