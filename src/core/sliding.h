#pragma once

#include "core/choice.h"
#include "core/rate.h"

namespace weir::core {

// A sliding window estimated from two counters: of the aligned window `now` lies in, and of the one
// before, which counts with the share of it that the sliding window still covers.
//
//      previous        current
//   ├─────────────┼─────────────┤
//         ◀───────┼────▶ now          40 % of current has run: 60 % of previous still count
//
// A call passes if previous × share + current + cost ≤ count, reckoned exactly. Constant memory.
// The error is that calls of the previous window are taken as evenly spread: the usual 2N at the
// edge is gone, but arrivals made for it can still bring almost 2N into one window's length.
// ExactLog never lets that happen.
struct Sliding {
  Permits count = 1;
  Nanos period{1'000'000'000};

  static Result<Sliding, Flaw> make(const Rate& rate);
};

// The counters have 32 bits each.
inline constexpr Permits kMaxSliding = 4'000'000'000;

Choice decide(const Sliding& limit, const State& state, Instant now, const Ask& ask);
Permits remaining(const Sliding& limit, const State& state, Instant now);
Instant rest_at(const Sliding& limit, const State& state, Instant now);
State debit(const Sliding& limit, const State& state, Instant now, Permits cost);
State refund(const Sliding& limit, const State& state, Instant now, Receipt& receipt, Permits back);
inline Permits capacity(const Sliding& limit) { return limit.count; }

}  // namespace weir::core
