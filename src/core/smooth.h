#pragma once

#include "core/choice.h"
#include "core/rate.h"

namespace weir::core {

// The smooth limiter of Guava's RateLimiter, with and without warm-up: the next caller pays.
//
// A call is never refused for its size. It is let in at the instant `next`, which is now unless
// somebody owes, and pushes `next` ahead by its own price: the *following* caller waits for it.
// Time in which nobody called is saved up, one second of it at most, and pays for later permits.
// 10/s after a rest: ten permits are paid from savings, the eleventh is let in on credit.
//
// With warm-up, savings mean that the service behind has gone cold, and permits paid from savings
// cost more, not less: three times the price when full, falling in a straight line to once the
// price when half is left, and once the price below.
//
//    price of a permit
//      3 ×  ┤                          ╱
//           │                       ╱
//           │                    ╱
//      1 ×  ┤──────────────────╱
//           └─────────────────┬────────┬──▶ saved up
//           0             warmup/2   warmup
//
// Guava counts stored permits as doubles and time as microseconds. Here both are time: a permit
// stored is the time it took to save it, `price`. (With Guava's cold factor of 3 that holds for
// warm-up too: its cool-down interval W/max equals the stable interval.) So nothing drifts, and a
// change of the rate needs no conversion: Guava scales the stored permits with the rate, which
// leaves the saved time as it is.
struct Smooth {
  Rate rate{};
  Nanos warmup{-1};  // negative: none

  // Derived. Times are in parts of a nanosecond.
  Pace pace{};
  Int128 full = 0;  // the most that can be saved up

  bool warms_up() const { return warmup >= Nanos{0}; }

  static Result<Smooth, Flaw> make(const Rate& rate);
  static Result<Smooth, Flaw> make_warming(const Rate& rate, Nanos warmup);
};

// The second word of the state, from the top: parts of the instant in the first, savings in
// nanoseconds, parts of those.
namespace savings {
inline constexpr int kPartsBits = 10;
inline constexpr int kSavedBits = 44;
}  // namespace savings

inline constexpr Nanos kLongestWarmup = std::chrono::hours{4};

Choice decide(const Smooth& limit, const State& state, Instant now, const Ask& ask);
Permits remaining(const Smooth& limit, const State& state, Instant now);
Instant rest_at(const Smooth& limit, const State& state, Instant now);
State debit(const Smooth& limit, const State& state, Instant now, Permits cost);
State refund(const Smooth& limit, const State& state, Instant now, Receipt& receipt, Permits back);
Permits capacity(const Smooth& limit);

// A limiter created at `now` with nothing saved up, as Guava creates those without warm-up. (A key
// never seen starts at rest instead: the limiter was there before the key.)
State created_empty(Instant now);

}  // namespace weir::core
