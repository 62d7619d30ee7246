#pragma once

#include "core/evaluation.h"
#include "core/rate.h"

namespace weir::core {

// The algorithm of Guava's RateLimiter, with and without warm-up: the next caller pays.
//
// A call is never refused for its size. It is admitted at the instant `next`, which is now unless
// there is debt, and advances `next` by its own price: the *following* caller waits for it. Idle
// time is saved up, one second at most, and pays for later permits. 10/s after a rest: ten permits
// are paid from savings, the eleventh is admitted on credit.
//
// With warm-up, savings mean that the service behind has gone cold, so permits paid from savings
// cost more, not less: three times the price when savings are full, falling linearly to once the
// price when half of them is left, and once the price below.
//
//    price of a permit
//      3 ×  ┤                          ╱
//           │                       ╱
//           │                    ╱
//      1 ×  ┤──────────────────╱
//           └─────────────────┬────────┬──▶ saved up
//           0             warmup/2   warmup
//
// Guava stores permits as doubles and time in microseconds. Here both are exact times: a stored
// permit is the time that it took to save it, `price`. (This holds for warm-up too: with Guava's
// cold factor of 3, its cool-down interval W/max equals the stable interval.) So nothing drifts,
// and a change of the rate needs no conversion: Guava scales stored permits with the rate, which
// keeps the saved time.
struct Smooth {
  Rate rate{};
  Nanos warmup{-1};  // negative: none

  // Derived. Times are in parts of a nanosecond.
  EmissionInterval interval{};
  Int128 full = 0;  // maximum savings

  bool warms_up() const { return warmup >= Nanos{0}; }

  static Result<Smooth, Flaw> make(const Rate& rate);
  static Result<Smooth, Flaw> make_warming(const Rate& rate, Nanos warmup);
};

// The second word of the state, from the top: the parts of the instant in the first word, the
// savings in nanoseconds, the parts of the savings.
namespace savings {
inline constexpr int kPartsBits = 10;
inline constexpr int kSavedBits = 44;
}  // namespace savings

inline constexpr Nanos kLongestWarmup = std::chrono::hours{4};

Evaluation decide(const Smooth& limit, const State& state, Instant now, const Ask& ask);
Permits remaining(const Smooth& limit, const State& state, Instant now);
Instant rest_at(const Smooth& limit, const State& state, Instant now);
State debit(const Smooth& limit, const State& state, Instant now, Permits cost);
State refund(const Smooth& limit, const State& state, Instant now, Receipt& receipt, Permits back);
Permits capacity(const Smooth& limit);

// The state of a limiter created at `now` with nothing saved up, as Guava does without warm-up. (A
// key never seen starts at rest instead: its limiter has existed before the key.)
State created_empty(Instant now);

}  // namespace weir::core
