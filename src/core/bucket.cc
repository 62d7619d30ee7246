#include "core/bucket.h"

#include <algorithm>

#include "base/saturating.h"
#include "core/price_history.h"
#include "core/tat.h"

namespace weir::core {

namespace {

using gcra::in_parts;
using gcra::kPartsShift;
using gcra::kPriceMask;
using gcra::kRefundMask;
using gcra::kStampMask;
using gcra::kWaited;
using gcra::plus;
using gcra::Tat;
using gcra::tat_of;

constexpr std::int64_t kMaxParts = std::int64_t{1} << (64 - kPartsShift);

// Encodes the tat; keeps the mark bits of `old`.
State pack(const Bucket& limit, Tat tat, const State& old) {
  return {.when = static_cast<std::uint64_t>(tat.nanos),
          .what = static_cast<std::uint64_t>(tat.parts) << kPartsShift |
                  (old.what & gcra::kMarksMask) | limit.stamp};
}

Int128 debt_at(const Bucket& limit, Tat tat, std::int64_t now) {
  return gcra::debt_at(limit.interval, tat, now);
}

// The longest debt that a state can encode.
Int128 longest_debt(const Bucket& limit) { return in_parts(limit.interval, kLongestDebt); }

// The price of any number of permits, at most the longest debt.
Int128 price_of(const Bucket& limit, Int128 permits) {
  return gcra::price_of(limit.interval, permits);
}

bool has_stamp_of(const Bucket& limit, const State& state) {
  return (state.what & kStampMask) == limit.stamp;
}

Tat not_before(Tat tat, std::int64_t now) { return tat.nanos < now ? Tat{now, 0} : tat; }

Tat current_tat(const Bucket& limit, const State& state, std::int64_t now) {
  const State current = state_under_current_limit(limit, state, instant(now), nullptr);
  return not_before(tat_of(current), ns(limit.full_at));
}

// Sets the fields that follow from the capacity and the emission interval.
void derive(Bucket& limit) {
  limit.depth = limit.capacity * limit.interval.price;
  limit.free = std::min(limit.at_once * limit.interval.price, longest_debt(limit));
  limit.bound = std::min(limit.depth, longest_debt(limit));
  limit.stamp = (limit.stamp & ~kPriceMask) | gcra::encoded_price(limit.interval);
  // The sum of a debt and a cost of 61 bits each fits in 64 bits.
  constexpr Int128 narrow = Int128{1} << 61;
  if (limit.depth <= narrow)
    limit.narrow = static_cast<std::int64_t>(narrow / limit.interval.parts);
}

constexpr std::int64_t kNeverNarrow = std::numeric_limits<std::int64_t>::min();

Result<Bucket, Flaw> make(const Rate& rate, Permits capacity, Permits at_once, bool queue) {
  if (capacity < 1) return Flaw::capacity_too_small;
  if (capacity > kMaxPermits) return Flaw::capacity_too_large;
  const auto pace = EmissionInterval::of(rate, kMaxParts);
  if (!pace) return pace.error();
  constexpr Int128 too_deep = Int128{1} << 124;
  if (capacity > too_deep / pace->price) return Flaw::capacity_too_large;

  Bucket limit{.rate = rate, .capacity = capacity, .at_once = at_once, .queue = queue};
  limit.interval = *pace;
  derive(limit);
  return limit;
}

bool is_possible(const Bucket& limit, Permits cost) {
  return cost >= 0 && cost <= limit.capacity && cost * limit.interval.price <= limit.bound;
}

Int128 max_wait_in_parts(const Bucket& limit, const Ask& ask) {
  return std::min(in_parts(limit.interval, std::max(ask.max_wait, Nanos{0})),
                  longest_debt(limit) - limit.bound);
}

}  // namespace

Result<Bucket, Flaw> Bucket::make(const Rate& rate, Permits burst) {
  return core::make(rate, burst, burst, false);
}

Result<Bucket, Flaw> Bucket::make_queue(const Rate& rate, Permits places, Permits undelayed) {
  if (places < 0 || undelayed < 0) return Flaw::capacity_too_small;
  if (places >= kMaxPermits) return Flaw::capacity_too_large;
  return core::make(rate, places + 1, std::min(undelayed, places) + 1, true);
}

StepResult gcra::take_wide(const Bucket& limit, const State& state, Instant at, const Ask& ask) {
  const std::int64_t now = ns(in_range(at));
  const Int128 debt = gcra::debt_at(limit.interval, current_tat(limit, state, now), now);
  const bool possible = is_possible(limit, ask.cost);
  StepResult taken = step<Int128, false>(limit, state, now, debt, possible ? ask.cost : 0,
                                         max_wait_in_parts(limit, ask));
  if (!possible) {
    taken.decision.outcome = Outcome::impossible;
    taken.decision.retry_after = kNever;
  } else if (taken.decision) {
    const Int128 wait = std::max<Int128>(early(limit, debt, ask.cost), 0);
    taken.decision.wait = Nanos{to_int64(ceil_div(wait, limit.interval.parts))};
    if (may_wait(limit, ask)) taken.next.what |= kWaited;
  }
  return taken;
}

Evaluation decide(const Bucket& limit, const State& state, Instant now, const Ask& ask) {
  const StepResult taken = take(limit, state, now, ask);
  return {.outcome = taken.decision.outcome,
          .retry_after = taken.decision.retry_after,
          .wait = taken.decision.wait,
          .next = taken.next};
}

Permits remaining(const Bucket& limit, const State& state, Instant now) {
  now = in_range(now);
  const Int128 room = limit.depth - debt_at(limit, current_tat(limit, state, ns(now)), ns(now));
  return room > 0 ? static_cast<Permits>(quick_div(room, limit.interval.price)) : 0;
}

Instant rest_at(const Bucket& limit, const State& state, Instant now) {
  const Tat tat = current_tat(limit, state, ns(in_range(now)));
  return later(instant(tat.nanos), Nanos{tat.parts > 0 ? 1 : 0});
}

State debit(const Bucket& limit, const State& state, Instant now, Permits cost) {
  if (cost <= 0) return state;
  now = in_range(now);
  const Tat tat = not_before(current_tat(limit, state, ns(now)), ns(now));
  const Int128 room = std::max<Int128>(longest_debt(limit) - debt_at(limit, tat, ns(now)), 0);
  return pack(limit, plus(limit.interval, tat, std::min(room, price_of(limit, cost))), state);
}

PassCondition pass_condition(const Bucket& limit, const Ask& ask) {
  if (!is_possible(limit, ask.cost)) return {};
  const Int128 price = ask.cost * limit.interval.price;
  const Int128 patient = limit.free + max_wait_in_parts(limit, ask);
  if (!limit.queue) return {.max_debt = patient - price, .price = price};
  const Int128 room = limit.bound - price;
  return {.max_debt = ask.cost > 0 ? std::min(patient - limit.interval.price, room) : room,
          .price = price};
}

Int128 price_of(const Bucket& limit, Permits permits) { return price_of(limit, Int128{permits}); }

Bucket part_of(const Bucket& limit, Permits part) {
  if (part == limit.capacity) return limit;
  Bucket share{.rate = limit.rate, .capacity = part, .queue = limit.queue};
  // A queue must release at least one call at once, or it could not admit any.
  const auto at_once = static_cast<Permits>(Int128{limit.at_once} * part / limit.capacity);
  share.at_once = limit.queue ? std::max<Permits>(at_once, 1) : part;
  share.interval = {.parts = limit.interval.parts, .price = ceil_div(limit.depth, part)};
  derive(share);
  return share;
}

Nanos filling_time(const Bucket& limit) {
  return Nanos{to_int64(ceil_div(limit.bound, limit.interval.parts))};
}

Bucket starting_empty(Bucket limit, Instant now) {
  limit.full_at = later(in_range(now), filling_time(limit));
  limit.narrow = kNeverNarrow;
  return limit;
}

Bucket inheriting_start(Bucket next, const Bucket& old, Instant now) {
  now = in_range(now);
  if (old.full_at <= now) return next;
  const Int128 debt = in_parts(old.interval, between(now, old.full_at));
  const Int128 owed = gcra::debt_at_other_price(debt, old.interval, next.interval);
  const Nanos left{to_int64(ceil_div(owed, next.interval.parts))};
  next.full_at = std::max(next.full_at, later(now, left));
  next.narrow = kNeverNarrow;
  return next;
}

EpochNumber epoch_number(const Bucket& limit) {
  return static_cast<EpochNumber>(limit.stamp >> gcra::kPriceBits);
}

Bucket in_epoch(Bucket limit, EpochNumber number) {
  limit.stamp = std::uint64_t{number} << gcra::kPriceBits | (limit.stamp & kPriceMask);
  return limit;
}

namespace {

// Recomputes the state as if less had been taken. Exact only if the key has not changed since.
State taken_less(const Bucket& limit, Receipt& receipt, Permits back) {
  receipt.taken -= back;
  receipt.after =
      receipt.taken == 0 ? receipt.before : debit(limit, receipt.before, receipt.at, receipt.taken);
  return receipt.after;
}

// A lower bound of the receipt's debt that has not drained: assumes that its permits were the first
// to drain. Callers that were told to wait keep their turns, so debt counts as drained up to the
// last turn. A debit beyond the depth has promised no turn.
Int128 min_undrained_debt(const Bucket& limit, const State& state, const Receipt& receipt,
                          Int128 debt, Instant now) {
  const bool waited = limit.queue || (state.what & kWaited) != 0;
  const Int128 last_turn = waited ? std::max<Int128>(debt - limit.free, 0) : 0;
  const Int128 passed = in_parts(limit.interval, until(receipt.at, now)) + last_turn;
  return std::min(price_of(limit, Int128{receipt.taken}) - passed, debt);
}

// The state after a refund. Increments the refund counter, so that the state differs from the
// `after` state of every receipt.
State after_refund(const Bucket& limit, const State& state, Tat tat) {
  constexpr std::uint64_t one_more = kStampMask + 1;
  State next = pack(limit, tat, state);
  next.what = (next.what & ~kRefundMask) | ((next.what + one_more) & kRefundMask);
  return next;
}

}  // namespace

// A refund must leave the bucket as if less had been taken in the first place. If the key has not
// changed since, the take is recomputed with less. Otherwise only debt that certainly has not
// drained is given back: up to that amount the bucket has not run dry with or without the take, so
// the two histories differ by exactly the refund. Permits taken at another price can only be given
// back as a whole.
State refund(const Bucket& limit, const State& state, Instant now, Receipt& receipt, Permits back) {
  back = std::clamp<Permits>(back, 0, receipt.taken);
  if (back == 0) return state;
  const bool same_price = has_stamp_of(limit, receipt.after) && receipt.at != kPriceChanged;
  const bool untouched = state == receipt.after;
  if (untouched && (same_price || back == receipt.taken)) return taken_less(limit, receipt, back);
  if (!same_price) return state;

  now = in_range(now);
  const Int128 debt = debt_at(limit, current_tat(limit, state, ns(now)), ns(now));
  const Int128 owed = min_undrained_debt(limit, state, receipt, debt, now);
  const Int128 span = std::min(owed, price_of(limit, Int128{back}));
  if (span <= 0) return state;
  receipt.taken -= static_cast<Permits>(ceil_div(span, limit.interval.price));
  receipt.after.when = kNoInstant;
  return after_refund(limit, state, plus(limit.interval, {ns(now), 0}, debt - span));
}

}  // namespace weir::core
