#pragma once

#include "core/evaluation.h"
#include "core/rate.h"

namespace weir::core {

// A sliding window estimated from two counters: that of the aligned window which contains `now`,
// and that of the window before, weighted by the fraction that the sliding window still covers.
//
//      previous        current
//   ├─────────────┼─────────────┤
//         ◀───────┼────▶ now          40 % of current has run: 60 % of previous still count
//
// A call passes if previous × fraction + current + cost ≤ count, computed exactly. Constant memory.
// The estimate assumes that the calls of the previous window were evenly spread. This avoids the 2N
// of fixed windows at their boundary, but adversarial arrivals can still get almost 2N into one
// window's length. SlidingLog prevents that.
struct SlidingCounter {
  Permits count = 1;
  Nanos period{1'000'000'000};

  static Result<SlidingCounter, Flaw> make(const Rate& rate);
};

// The counters have 32 bits each.
inline constexpr Permits kMaxSliding = 4'000'000'000;

Evaluation decide(const SlidingCounter& limit, const State& state, Instant now, const Ask& ask);
Permits remaining(const SlidingCounter& limit, const State& state, Instant now);
Instant rest_at(const SlidingCounter& limit, const State& state, Instant now);
State debit(const SlidingCounter& limit, const State& state, Instant now, Permits cost);
State refund(const SlidingCounter& limit, const State& state, Instant now, Receipt& receipt,
             Permits back);
inline Permits capacity(const SlidingCounter& limit) { return limit.count; }

}  // namespace weir::core
