#pragma once

#include "core/choice.h"
#include "core/rate.h"

namespace weir::core {

// CL.THROTTLE as redis-cell has it, down to what it cuts off: the price is a whole number of
// nanoseconds, rounded down, and what remains is reckoned in microseconds. It is a bucket that
// remembers nothing but its theoretical arrival time; a call with other parameters finds the same
// instant, whatever that means in permits. New limits should be buckets.
//
// A cost below zero gives back: the debt shrinks. What would be more than the debt is an error
// there, after which the bucket is full; here it is `impossible`, with nothing to wait for.
struct Cell {
  Permits capacity = 1;  // one more than the burst that callers name
  Nanos price{1};
  Nanos depth{1};

  // `count` permits each `period`, and `burst` beyond the first at once.
  static Result<Cell, Flaw> make(Permits burst, Permits count, Permits period_seconds);
};

Choice decide(const Cell& limit, const State& state, Instant now, const Ask& ask);
Permits remaining(const Cell& limit, const State& state, Instant now);
Instant rest_at(const Cell& limit, const State& state, Instant now);
State debit(const Cell& limit, const State& state, Instant now, Permits cost);
State refund(const Cell& limit, const State& state, Instant now, Receipt& receipt, Permits back);
inline Permits capacity(const Cell& limit) { return limit.capacity; }

}  // namespace weir::core
