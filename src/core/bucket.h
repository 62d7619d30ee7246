#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/choice.h"
#include "core/rate.h"

namespace weir::core {

// Token bucket, meter and queue: one algorithm, the generic cell rate algorithm (GCRA).
//
// Instead of counting tokens that drip into a bucket, it remembers a single instant, the
// theoretical arrival time (tat): the moment at which everything admitted so far will have been
// paid for at one price per permit. `tat - now` is the debt. A call of cost c raises the debt by
// c prices and passes if it stays within the depth, capacity × price:
//
//        now            tat                 now + depth
//   ──────┼──────────────┼────────────────────────┼──────▶ time
//         │◀─── debt ───▶│◀── what may be taken ─▶│
//
// Nothing has to be refilled: time passing lowers the debt by itself, to the nanosecond, with no
// drift. 20/s burst 30: price 50 ms, depth 1.5 s; thirty calls at once bring the debt to 1.5 s, the
// next one passes 50 ms later.
//
// A bucket admits whatever fits its depth at once. A caller that is willing to wait may go into
// debt beyond the depth, and waits until it is back. A queue has the same depth and nothing beyond
// it; whoever comes while more than `at_once - 1` permits are owed waits for its turn.
//
// The state is the tat (nanoseconds and parts of one) and a stamp: the price it was reckoned with
// and the epoch of the limit's history in which that was the price. After a change of the limit the
// debt in *permits* stays: 10/min used up and raised to 20/min leaves 10. The next look at a state
// of another stamp finds what became of it since (core/price_history.h) and writes that, whether it
// admits or refuses.
struct Bucket {
  Rate rate{};
  Permits capacity = 1;
  Permits at_once = 1;  // released without waiting; the capacity for a bucket or with nodelay
  bool queue = false;
  // Derived from the above, in parts of a nanosecond.
  Pace pace{};
  Int128 depth = 0;  // the capacity
  Int128 free = 0;   // at_once, or 73 years
  Int128 bound = 0;  // the debt that nobody leaves who does not wait: depth, or 73 years
  // Debts below this many nanoseconds are reckoned in 64 bits; none, if the depth is too large.
  std::int64_t narrow = std::numeric_limits<std::int64_t>::min();
  std::uint64_t stamp = 0;  // the price of a permit and the epoch, as states carry them

  // Until then every key owes, whether it was ever seen or not: the bucket began empty. (Such a one
  // is never narrow, so that others need not look.)
  Instant full_at{};

  // The price is known to rise to this many times the present one, at other hours or when an order
  // ends. A store that expires states keeps them that many times as long as they take to drain.
  std::int64_t known_rise = 1;

  static Result<Bucket, Flaw> make(const Rate& rate, Permits burst);
  static Result<Bucket, Flaw> make_queue(const Rate& rate, Permits places, Permits undelayed);
};

// What `take` of core/limit.h does, in one pass: most limits are buckets.
inline Taken take(const Bucket& limit, const State& state, Instant now, const Ask& ask = {});

Choice decide(const Bucket& limit, const State& state, Instant now, const Ask& ask);
Permits remaining(const Bucket& limit, const State& state, Instant now);
Instant rest_at(const Bucket& limit, const State& state, Instant now);
State debit(const Bucket& limit, const State& state, Instant now, Permits cost);
State refund(const Bucket& limit, const State& state, Instant now, Receipt& receipt, Permits back);
// What a call needs to pass, for whoever decides elsewhere, in parts of a nanosecond.
struct Terms {
  Int128 most_debt = -1;  // that it may find; -1 if it cannot pass
  Int128 price = 0;       // what it adds
};
Terms terms_of(const Bucket& limit, const Ask& ask);
// Whether a state has to remember that this caller may have been told to wait. (In a queue all
// are.)
inline bool may_wait(const Bucket& limit, const Ask& ask) {
  return !limit.queue && ask.cost > 0 && ask.max_wait > Nanos{0};
}
// The price of permits that are charged without asking, or given back: at most the longest debt.
Int128 price_of(const Bucket& limit, Permits permits);
// The same limit for whoever has `part` of its capacity, from 1 to all of it: the price is as much
// higher as the capacity is lower, so that it fills in the same time.
Bucket part_of(const Bucket& limit, Permits part);
// How long an empty one takes to fill.
Nanos filling_time(const Bucket& limit);
// The same limit, empty for everybody at `now`.
Bucket starting_empty(Bucket limit, Instant now);
// `next` with what every key of `old` owes at `now` because `old` began empty.
Bucket inheriting_start(Bucket next, const Bucket& old, Instant now);

// The number of an epoch in states. It wraps: a state would have to be left alone, with its debt,
// for 65,536 changes of its limit to be taken for one of a later epoch.
using EpochNumber = std::uint16_t;
Bucket in_epoch(Bucket limit, EpochNumber number);
EpochNumber epoch_number(const Bucket& limit);
inline Permits capacity(const Bucket& limit) { return limit.capacity; }

// ---- The step

namespace gcra {

// The second word of the state, from the top: 20 bits of a nanosecond's parts; a bit that says that
// callers may have been told to wait; 3 bits that change with each refund, so that no receipt takes
// the debt of others for its own; 40 bits of stamp: the number of the epoch, and the price to 18
// significant bits, for a state whose epoch is unknown.
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

// How far a call comes before its turn, in parts of a nanosecond. A bucket's turn comes when the
// debt, with this call's, is back at the depth; a queue's when those before it are paid for,
// whatever the call's own cost, and a call without a cost need not wait for it.
template <typename Int>
[[gnu::always_inline]] inline Int early(const Bucket& limit, Int debt, Permits cost) {
  const Int price = static_cast<Int>(limit.pace.price);
  if (limit.queue) return (cost > 0 ? debt + price : Int{0}) - static_cast<Int>(limit.free);
  return debt + static_cast<Int>(cost) * price - static_cast<Int>(limit.free);
}

// The step, but for the wait. The debt counts in parts of a nanosecond: that fits in 64 bits nearly
// always, and most prices are whole nanoseconds; either is much faster to reckon with. The cost is
// a possible one.
template <typename Int, bool kWholeNanos>
[[gnu::always_inline]] inline Taken step(const Bucket& limit, const State& state, std::int64_t now,
                                         Int debt, Permits cost, Int patience) {
  const Int parts = kWholeNanos ? 1 : limit.pace.parts;
  const Int price = static_cast<Int>(limit.pace.price);
  const Int raised = debt + static_cast<Int>(cost) * price;
  Int over = early(limit, debt, cost) - patience;
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

// The step in 128 bits, for any state and ask.
Taken take_wide(const Bucket& limit, const State& state, Instant now, const Ask& ask);

}  // namespace gcra

[[gnu::always_inline]] inline Taken take(const Bucket& limit, const State& state, Instant at,
                                         const Ask& ask) {
  const std::int64_t now = ns(at);
  const auto ahead = static_cast<std::int64_t>(state.when - word_of(at));
  const bool narrow = (state.what & gcra::kStampMask) == limit.stamp && ahead < limit.narrow &&
                      at >= kEarliest && at <= kLatest && ask.cost > 0 &&
                      ask.cost <= limit.capacity && ask.max_wait <= Nanos{0};
  if (!narrow) [[unlikely]] {
    return word_by_word(gcra::take_wide(limit, state, at, ask));
  }
  // A tat in the past, by however much, is no debt. (Said without a branch: chance decides which.)
  if (limit.pace.parts == 1) [[likely]] {
    const std::int64_t debt = std::max<std::int64_t>(ahead, 0);
    return gcra::step<std::int64_t, true>(limit, state, now, debt, ask.cost, 0);
  }
  const auto parts = static_cast<std::int64_t>(state.what >> gcra::kPartsShift);
  const std::int64_t debt =
      std::max<std::int64_t>(std::max<std::int64_t>(ahead, -1) * limit.pace.parts + parts, 0);
  return gcra::step<std::int64_t, false>(limit, state, now, debt, ask.cost, 0);
}

}  // namespace weir::core
