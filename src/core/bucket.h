#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/evaluation.h"
#include "core/rate.h"

namespace weir::core {

// Token bucket, meter and queue: one algorithm, the generic cell rate algorithm (GCRA).
//
// Instead of a token count, the state is a single instant: the theoretical arrival time (tat), at
// which everything admitted so far will have drained at one price (emission interval) per permit.
// `tat - now` is the debt. A call of cost c raises the debt by c prices. It passes if the debt
// stays within the depth, capacity × price:
//
//        now            tat                 now + depth
//   ──────┼──────────────┼────────────────────────┼──────▶ time
//         │◀─── debt ───▶│◀── what may be taken ─▶│
//
// No refill step is needed: the debt drains with time, to the nanosecond, without drift. 20/s burst
// 30: price 50 ms, depth 1.5 s; thirty calls at once bring the debt to 1.5 s, the next one passes
// 50 ms later.
//
// A bucket admits at once whatever fits its depth. A caller that is willing to wait may go into
// debt beyond the depth, and waits until the debt is back at the depth. A queue has the same depth
// and never exceeds it; a call waits for its turn while more than `at_once - 1` permits are owed.
//
// The state contains the tat (nanoseconds and parts of one) and a stamp: the price at which it was
// computed, and the epoch of the limit's history in which that price was in force. When the limit
// changes, the debt in *permits* stays: 10/min used up and raised to 20/min leaves 10. The next
// access to a state with another stamp converts it to the present price (core/price_history.h) and
// writes it back, also if the call is refused.
struct Bucket {
  Rate rate{};
  Permits capacity = 1;
  Permits at_once = 1;  // admitted without waiting; the capacity for a bucket or with nodelay
  bool queue = false;
  // Derived from the above, in parts of a nanosecond.
  EmissionInterval interval{};
  Int128 depth = 0;  // capacity × price
  Int128 free = 0;   // at_once × price, at most 73 years
  Int128 bound = 0;  // the largest debt that a call without waiting may leave: depth, or 73 years
  // Debts below this many nanoseconds fit in 64-bit arithmetic; the minimum if the depth is too
  // large for it.
  std::int64_t narrow = std::numeric_limits<std::int64_t>::min();
  std::uint64_t stamp = 0;  // the price of a permit and the epoch, as encoded in states

  // Until this instant every key is in debt, even if it was never seen: the bucket started empty.
  // `narrow` is then at its minimum, so that the 64-bit path need not check for it.
  Instant full_at{};

  // The price will rise to at most this multiple of the present one, by a schedule or when an order
  // ends. A store that expires states keeps them this many times as long as they take to drain.
  std::int64_t known_rise = 1;

  static Result<Bucket, Flaw> make(const Rate& rate, Permits burst);
  static Result<Bucket, Flaw> make_queue(const Rate& rate, Permits places, Permits undelayed);
};

// The `take` of core/limit.h as a single function, for speed: most limits are buckets.
inline StepResult take(const Bucket& limit, const State& state, Instant now, const Ask& ask = {});

Evaluation decide(const Bucket& limit, const State& state, Instant now, const Ask& ask);
Permits remaining(const Bucket& limit, const State& state, Instant now);
Instant rest_at(const Bucket& limit, const State& state, Instant now);
State debit(const Bucket& limit, const State& state, Instant now, Permits cost);
State refund(const Bucket& limit, const State& state, Instant now, Receipt& receipt, Permits back);
// The condition under which a call passes, for stores that decide elsewhere. In parts of a
// nanosecond.
struct PassCondition {
  Int128 max_debt = -1;  // the call passes if the debt is at most this; -1: it never passes
  Int128 price = 0;      // added to the debt if it passes
};
PassCondition pass_condition(const Bucket& limit, const Ask& ask);
// True if the state has to record that this caller may have been told to wait. A queue does not
// record it: there, every caller may have to wait.
inline bool may_wait(const Bucket& limit, const Ask& ask) {
  return !limit.queue && ask.cost > 0 && ask.max_wait > Nanos{0};
}
// The price of permits that are debited or given back: at most the longest debt.
Int128 price_of(const Bucket& limit, Permits permits);
// A part of the limit with capacity `part`, from 1 to the whole capacity. The price rises as the
// capacity falls, so the filling time stays the same.
Bucket part_of(const Bucket& limit, Permits part);
// The time in which an empty bucket fills.
Nanos filling_time(const Bucket& limit);
// The same limit, empty for all keys at `now`.
Bucket starting_empty(Bucket limit, Instant now);
// `next` with the debt that every key of `old` still has at `now` because `old` started empty.
Bucket inheriting_start(Bucket next, const Bucket& old, Instant now);

// The number of an epoch as encoded in states. It wraps around: a state with debt would have to
// stay untouched for 65,536 changes of its limit to be attributed to a wrong epoch.
using EpochNumber = std::uint16_t;
Bucket in_epoch(Bucket limit, EpochNumber number);
EpochNumber epoch_number(const Bucket& limit);
inline Permits capacity(const Bucket& limit) { return limit.capacity; }

// ---- The step

namespace gcra {

// The second word of the state, from the top: 20 bits for the parts of a nanosecond; 1 bit that is
// set if callers may have been told to wait; 3 bits that count refunds, so that no receipt matches
// a state that others have changed; 40 bits of stamp: 16 for the number of the epoch and 24 for the
// price (18 significant bits), which is used if the epoch is unknown.
inline constexpr int kPriceBits = 24;
inline constexpr int kStampBits = kPriceBits + 16;
inline constexpr int kRefundBits = 3;
inline constexpr int kPartsShift = kStampBits + kRefundBits + 1;
inline constexpr std::uint64_t kPriceMask = (std::uint64_t{1} << kPriceBits) - 1;
inline constexpr std::uint64_t kStampMask = (std::uint64_t{1} << kStampBits) - 1;
inline constexpr std::uint64_t kWaited = std::uint64_t{1} << (kStampBits + kRefundBits);
inline constexpr std::uint64_t kRefundMask = kWaited - 1 - kStampMask;
// The bits that a charge leaves as they are.
inline constexpr std::uint64_t kMarksMask = kWaited | kRefundMask;

// The time by which a call is ahead of its turn, in parts of a nanosecond. In a bucket, the turn
// comes when the debt including this call is back at the depth. In a queue, it comes when the calls
// before it have drained, whatever this call costs; a call of cost zero need not wait.
template <typename Int>
[[gnu::always_inline]] inline Int early(const Bucket& limit, Int debt, Permits cost) {
  const Int price = static_cast<Int>(limit.interval.price);
  if (limit.queue) return (cost > 0 ? debt + price : Int{0}) - static_cast<Int>(limit.free);
  return debt + static_cast<Int>(cost) * price - static_cast<Int>(limit.free);
}

// The step, except for `wait`. `debt` and `max_wait` are in parts of a nanosecond. Specialized for
// speed: debts nearly always fit in 64 bits, and most prices are whole nanoseconds. The cost must
// be possible.
template <typename Int, bool kWholeNanos>
[[gnu::always_inline]] inline StepResult step(const Bucket& limit, const State& state,
                                              std::int64_t now, Int debt, Permits cost,
                                              Int max_wait) {
  const Int parts = kWholeNanos ? 1 : limit.interval.parts;
  const Int price = static_cast<Int>(limit.interval.price);
  const Int raised = debt + static_cast<Int>(cost) * price;
  Int over = early(limit, debt, cost) - max_wait;
  if (limit.queue) [[unlikely]] {
    over = std::max(over, raised - static_cast<Int>(limit.bound));
  }
  const bool passes = over <= 0;
  const Int owed = passes ? raised : debt;
  const auto nanos = static_cast<std::int64_t>(owed / parts);
  const auto rest = static_cast<std::int64_t>(owed % parts);
  const bool charges = passes && cost > 0;
  const std::uint64_t when = charges ? static_cast<std::uint64_t>(now + nanos) : state.when;
  const std::uint64_t what = charges ? static_cast<std::uint64_t>(rest) << kPartsShift |
                                           (state.what & kMarksMask) | limit.stamp
                                     : state.what;

  const Int retry = passes ? 0 : (over + parts - 1) / parts;
  const Int room = std::max(static_cast<Int>(limit.depth) - owed, Int{0});
  return {.decision = {.outcome = passes ? Outcome::allowed : Outcome::limited,
                       .limit = limit.capacity,
                       .remaining = static_cast<Permits>(room / price),
                       .retry_after = Nanos{static_cast<std::int64_t>(retry)},
                       .reset_after = Nanos{nanos + (rest > 0 ? 1 : 0)}},
          .next = {when, what}};
}

// The step in 128 bits, for any state and any call.
StepResult take_wide(const Bucket& limit, const State& state, Instant now, const Ask& ask);

}  // namespace gcra

[[gnu::always_inline]] inline StepResult take(const Bucket& limit, const State& state, Instant at,
                                              const Ask& ask) {
  const std::int64_t now = ns(at);
  const auto ahead = static_cast<std::int64_t>(state.when - word_of(at));
  const bool narrow = (state.what & gcra::kStampMask) == limit.stamp && ahead < limit.narrow &&
                      at >= kEarliest && at <= kLatest && ask.cost > 0 &&
                      ask.cost <= limit.capacity && ask.max_wait <= Nanos{0};
  if (!narrow) [[unlikely]] {
    return word_by_word(gcra::take_wide(limit, state, at, ask));
  }
  // A tat in the past means no debt. Branch-free, because the branch would be unpredictable.
  if (limit.interval.parts == 1) [[likely]] {
    const std::int64_t debt = std::max<std::int64_t>(ahead, 0);
    return gcra::step<std::int64_t, true>(limit, state, now, debt, ask.cost, 0);
  }
  const auto parts = static_cast<std::int64_t>(state.what >> gcra::kPartsShift);
  const std::int64_t debt =
      std::max<std::int64_t>(std::max<std::int64_t>(ahead, -1) * limit.interval.parts + parts, 0);
  return gcra::step<std::int64_t, false>(limit, state, now, debt, ask.cost, 0);
}

}  // namespace weir::core
