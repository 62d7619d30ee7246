#include "core/bucket.h"

#include <algorithm>
#include <optional>

#include "base/saturating.h"

namespace weir::core {

namespace {

using gcra::kPartsShift;
using gcra::kPriceMask;
using gcra::kRefundMask;

constexpr std::int64_t kMaxParts = std::int64_t{1} << (64 - kPartsShift);

// The price in the state is a small floating-point number in units of 2^-46 ns: 7 bits of exponent
// and 32 of fraction, with a leading one that goes without saying unless the exponent is 0. It is
// rounded down; `tat_repriced` allows for that. The last bit tells apart prices that are the same.
constexpr int kFractionBits = 32;
constexpr Int128 kLeadingOne = Int128{1} << kFractionBits;
constexpr int kUnitBits = 46;
constexpr std::uint64_t kComeBack = 1;

std::uint64_t encoded_price(const Pace& pace) {
  const Int128 nanos = pace.price / pace.parts;
  const Int128 rest = pace.price % pace.parts;
  Int128 units = (nanos << kUnitBits) + (rest << kUnitBits) / pace.parts;
  std::uint64_t exponent = units >= kLeadingOne ? 1 : 0;
  while (units >= 2 * kLeadingOne) {
    units >>= 1;
    ++exponent;
  }
  const Int128 fraction = exponent > 0 ? units - kLeadingOne : units;
  return (exponent << kFractionBits | static_cast<std::uint64_t>(fraction)) << 1;
}

Int128 price_in_units(std::uint64_t encoded) {
  const std::uint64_t exponent = encoded >> (kFractionBits + 1);
  const Int128 fraction = encoded >> 1 & (static_cast<std::uint64_t>(kLeadingOne) - 1);
  return exponent > 0 ? (fraction + kLeadingOne) << (exponent - 1) : fraction;
}

// The theoretical arrival time: an instant, and parts of a nanosecond after it.
struct Tat {
  std::int64_t nanos;
  std::int64_t parts;
};

Tat tat_of(const State& state) {
  return {ns(instant_of(state.when)), static_cast<std::int64_t>(state.what >> kPartsShift)};
}

// The new state of a key that has been in the state `old`.
State pack(const Bucket& limit, Tat tat, const State& old) {
  return {.when = static_cast<std::uint64_t>(tat.nanos),
          .what = static_cast<std::uint64_t>(tat.parts) << kPartsShift | (old.what & kRefundMask) |
                  limit.price};
}

Tat plus(const Pace& pace, Tat tat, Int128 span) {
  span += tat.parts;
  if (pace.parts == 1) return {tat.nanos + static_cast<std::int64_t>(span), 0};
  const Int128 nanos = quick_div(span, pace.parts);
  return {tat.nanos + static_cast<std::int64_t>(nanos),
          static_cast<std::int64_t>(span - nanos * pace.parts)};
}

Int128 in_parts(const Pace& pace, Nanos span) { return Int128{span.count()} * pace.parts; }

Int128 debt_at(const Bucket& limit, Tat tat, std::int64_t now) {
  if (tat.nanos < now) return 0;
  return Int128{tat.nanos - now} * limit.pace.parts + tat.parts;
}

// The longest debt a state can hold.
Int128 longest_debt(const Bucket& limit) { return in_parts(limit.pace, kLongestDebt); }

// The price of any number of permits, at most the longest debt.
Int128 price_of(const Bucket& limit, Int128 permits) {
  const Int128 longest = longest_debt(limit);
  return permits > longest / limit.pace.price ? longest : permits * limit.pace.price;
}

// What `whole + rest / old_price` permits cost now, rounded up.
Int128 price_of(const Bucket& limit, Int128 whole, Int128 rest, Int128 old_price) {
  // 44 significant bits of the fraction of one permit are plenty, and cannot overflow.
  while (old_price >> 44 != 0) {
    rest = ceil_div(rest, 2);
    old_price >>= 1;
  }
  const Int128 fraction = ceil_div(rest * limit.pace.price, old_price);
  return std::min(price_of(limit, whole) + fraction, longest_debt(limit));
}

// The tat of a state that another price was reckoned with: the debt in permits is what it is now.
// The old price is known to 33 bits and the old debt to a nanosecond, so the debt in permits lies
// between two close bounds; a whole number between them is the truth.
Tat tat_repriced(const Bucket& limit, const State& state, std::int64_t now) {
  const Tat old = tat_of(state);
  if (old.nanos < now) return {0, 0};

  const Int128 old_price = std::max<Int128>(price_in_units(state.what & kPriceMask), 1);
  const Int128 a_nano = Int128{old.parts > 0 ? 1 : 0} << kUnitBits;
  const Int128 most = (Int128{old.nanos - now} << kUnitBits) + a_nano;
  const Int128 slack = a_nano + (most >> kFractionBits) + 1;
  const Int128 whole = most / old_price;
  const Int128 rest = most - whole * old_price;
  const bool is_whole = rest <= slack && slack < old_price;
  return plus(limit.pace, {now, 0}, price_of(limit, whole, is_whole ? 0 : rest, old_price));
}

// In a receipt: what no state has for an instant, so that it is never found untouched again.
constexpr std::uint64_t kNoInstant = ~std::uint64_t{0};

bool has_price_of(const Bucket& limit, const State& state) {
  return (state.what & kPriceMask) == limit.price;
}

// The state of a limit that changed from `from` to `to` when `to` says.
State reprice(const Bucket& from, const Bucket& to, const State& state) {
  const std::int64_t then = ns(to.since);
  const Tat tat = tat_of(state);
  // What was at rest then stays so, even for a clock that is put back to before the change.
  if (tat.nanos < then) return pack(to, {tat.nanos, 0}, state);
  const Int128 debt = debt_at(from, tat, then);
  const Int128 whole = debt / from.pace.price;
  const Int128 rest = debt - whole * from.pace.price;
  return pack(to, plus(to.pace, {then, 0}, price_of(to, whole, rest, from.pace.price)), state);
}

// What has become of a state that one of the limit's predecessors has left, if one has.
std::optional<State> retold(const Bucket& limit, const State& state) {
  if (has_price_of(limit, state)) return state;
  if (limit.earlier == nullptr) return std::nullopt;
  const auto before = retold(*limit.earlier, state);
  return before ? std::optional(reprice(*limit.earlier, limit, *before)) : std::nullopt;
}

Tat not_before(Tat tat, std::int64_t now) { return tat.nanos < now ? Tat{now, 0} : tat; }

Tat read_state(const Bucket& limit, const State& state, std::int64_t now) {
  if (has_price_of(limit, state) || state.never_seen()) return tat_of(state);
  if (const auto current = retold(limit, state)) return tat_of(*current);
  const bool same_price = ((state.what ^ limit.price) & kPriceMask & ~kComeBack) == 0;
  return same_price ? tat_of(state) : tat_repriced(limit, state, now);
}

Tat read(const Bucket& limit, const State& state, std::int64_t now) {
  return not_before(read_state(limit, state, now), ns(limit.full_at));
}

// The predecessors of a limit, at most so many, and none from which `price` could not be told.
std::shared_ptr<const Bucket> predecessors(const Bucket& limit, std::uint64_t price, int at_most) {
  if (at_most == 0 || limit.price == price) return nullptr;
  auto kept = std::make_shared<Bucket>(limit);
  kept->earlier = limit.earlier ? predecessors(*limit.earlier, price, at_most - 1) : nullptr;
  return kept;
}

// What follows from the capacity and the pace.
void derive(Bucket& limit) {
  limit.depth = limit.capacity * limit.pace.price;
  limit.free = std::min(limit.at_once * limit.pace.price, longest_debt(limit));
  limit.bound = std::min(limit.depth, longest_debt(limit));
  limit.price = encoded_price(limit.pace);
  // A debt and a cost of 61 bits each can be added up in 64.
  constexpr Int128 narrow = Int128{1} << 61;
  if (limit.depth <= narrow) limit.narrow = static_cast<std::int64_t>(narrow / limit.pace.parts);
}

constexpr std::int64_t kNeverNarrow = std::numeric_limits<std::int64_t>::min();

Result<Bucket, Flaw> make(const Rate& rate, Permits capacity, Permits at_once, bool queue) {
  if (capacity < 1) return Flaw::capacity_too_small;
  if (capacity > kMaxPermits) return Flaw::capacity_too_large;
  const auto pace = Pace::of(rate, kMaxParts);
  if (!pace) return pace.error();
  constexpr Int128 too_deep = Int128{1} << 124;
  if (capacity > too_deep / pace->price) return Flaw::capacity_too_large;

  Bucket limit{.rate = rate, .capacity = capacity, .at_once = at_once, .queue = queue};
  limit.pace = *pace;
  derive(limit);
  return limit;
}

bool is_possible(const Bucket& limit, Permits cost) {
  return cost >= 0 && cost <= limit.capacity && cost * limit.pace.price <= limit.bound;
}

Int128 patience_of(const Bucket& limit, const Ask& ask) {
  return std::min(in_parts(limit.pace, std::max(ask.max_wait, Nanos{0})),
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

Taken gcra::take_wide(const Bucket& limit, const State& state, Instant at, const Ask& ask) {
  const std::int64_t now = ns(in_range(at));
  const Int128 debt = debt_at(limit, read(limit, state, now), now);
  const bool possible = is_possible(limit, ask.cost);
  Taken taken = step<Int128, false>(limit, state, now, debt, possible ? ask.cost : 0,
                                    patience_of(limit, ask));
  if (!possible) {
    taken.decision.outcome = Outcome::impossible;
    taken.decision.retry_after = kNever;
  } else if (taken.decision) {
    const Int128 wait = std::max<Int128>(early(limit, debt, ask.cost), 0);
    taken.decision.wait = Nanos{to_int64(ceil_div(wait, limit.pace.parts))};
  }
  return taken;
}

Choice decide(const Bucket& limit, const State& state, Instant now, const Ask& ask) {
  const Taken taken = take(limit, state, now, ask);
  return {.outcome = taken.decision.outcome,
          .retry_after = taken.decision.retry_after,
          .wait = taken.decision.wait,
          .next = taken.next};
}

Permits remaining(const Bucket& limit, const State& state, Instant now) {
  now = in_range(now);
  const Int128 room = limit.depth - debt_at(limit, read(limit, state, ns(now)), ns(now));
  return room > 0 ? static_cast<Permits>(quick_div(room, limit.pace.price)) : 0;
}

Instant rest_at(const Bucket& limit, const State& state, Instant now) {
  const Tat tat = read(limit, state, ns(in_range(now)));
  return later(instant(tat.nanos), Nanos{tat.parts > 0 ? 1 : 0});
}

State debit(const Bucket& limit, const State& state, Instant now, Permits cost) {
  if (cost <= 0) return state;
  now = in_range(now);
  const Tat tat = not_before(read(limit, state, ns(now)), ns(now));
  const Int128 room = std::max<Int128>(longest_debt(limit) - debt_at(limit, tat, ns(now)), 0);
  return pack(limit, plus(limit.pace, tat, std::min(room, price_of(limit, cost))), state);
}

State repriced(const Bucket& limit, const State& state, Instant now) {
  return pack(limit, read(limit, state, ns(in_range(now))), state);
}

Terms terms_of(const Bucket& limit, const Ask& ask) {
  if (!is_possible(limit, ask.cost)) return {};
  const Int128 price = ask.cost * limit.pace.price;
  const Int128 patient = limit.free + patience_of(limit, ask);
  if (!limit.queue) return {.most_debt = patient - price, .price = price};
  const Int128 room = limit.bound - price;
  return {.most_debt = ask.cost > 0 ? std::min(patient - limit.pace.price, room) : room,
          .price = price};
}

Int128 price_of(const Bucket& limit, Permits permits) { return price_of(limit, Int128{permits}); }

Bucket part_of(const Bucket& limit, Permits part) {
  if (part == limit.capacity) return limit;
  Bucket share{.rate = limit.rate, .capacity = part, .queue = limit.queue};
  // (Who need not wait does so alone: a queue without such a place could let nobody go.)
  const auto places = static_cast<Permits>(Int128{limit.at_once} * part / limit.capacity);
  share.at_once = limit.queue ? std::max<Permits>(places, 1) : part;
  share.pace = {.parts = limit.pace.parts, .price = ceil_div(limit.depth, part)};
  derive(share);
  return share;
}

Nanos filling_time(const Bucket& limit) {
  return Nanos{to_int64(ceil_div(limit.bound, limit.pace.parts))};
}

Bucket starting_empty(Bucket limit, Instant now) {
  limit.full_at = later(in_range(now), filling_time(limit));
  limit.narrow = kNeverNarrow;
  return limit;
}

namespace {

// What every key of `old` owes at `now` still, it owes to `next`.
void take_over_debt(Bucket& next, const Bucket& old, Instant now) {
  now = in_range(now);
  if (old.full_at <= now) return;
  const Int128 debt = in_parts(old.pace, between(now, old.full_at));
  const Int128 whole = debt / old.pace.price;
  const Int128 owed = price_of(next, whole, debt - whole * old.pace.price, old.pace.price);
  const Nanos left{to_int64(ceil_div(owed, next.pace.parts))};
  next.full_at = std::max(next.full_at, later(now, left));
  next.narrow = kNeverNarrow;
}

}  // namespace

Bucket succeeding(Bucket next, const Bucket& old, Instant now) {
  constexpr int remembered = 8;
  take_over_debt(next, old, now);
  if (next.pace.parts == old.pace.parts && next.pace.price == old.pace.price) {
    next.price = old.price;
    next.earlier = old.earlier;
    next.since = old.since;
    return next;
  }
  for (const Bucket* was = &old; was != nullptr; was = was->earlier.get()) {
    if ((was->price & ~kComeBack) != next.price) continue;
    next.price = was->price ^ kComeBack;
    break;
  }
  next.earlier = predecessors(old, next.price, remembered);
  next.since = in_range(now);
  return next;
}

namespace {

// As if less had been taken in the first place: for a key to which nothing has happened since.
State taken_less(const Bucket& limit, Receipt& receipt, Permits back) {
  receipt.taken -= back;
  receipt.after =
      receipt.taken == 0 ? receipt.before : debit(limit, receipt.before, receipt.at, receipt.taken);
  return receipt.after;
}

// What is sure to be owed still, of what the receipt is for: what would be if its permits had been
// the first to drain. Callers that were told to wait for their turn keep it, so time counts as
// drained up to the last of their turns.
Int128 surely_owed(const Bucket& limit, const Receipt& receipt, Int128 debt, Instant now) {
  const Int128 last_turn = std::max<Int128>(debt - limit.free, 0);
  const Int128 passed = in_parts(limit.pace, until(receipt.at, now)) + last_turn;
  return std::min(price_of(limit, receipt.taken) - passed, debt);
}

// A state that a refund has left, which no other receipt was given for.
State after_refund(const Bucket& limit, const State& state, Tat tat) {
  constexpr std::uint64_t one_more = kPriceMask + 1;
  State next = pack(limit, tat, state);
  next.what = (next.what & ~kRefundMask) | ((next.what + one_more) & kRefundMask);
  return next;
}

}  // namespace

// Giving back must leave the bucket as if less had been taken in the first place. When nothing
// happened since, that is replayed. Otherwise it is sure only for what is surely owed still: up to
// that point the bucket never ran dry in either story, so the two differ by just the permits given
// back. What was taken at another price can only be undone as a whole.
State refund(const Bucket& limit, const State& state, Instant now, Receipt& receipt, Permits back) {
  back = std::clamp<Permits>(back, 0, receipt.taken);
  if (back == 0) return state;
  const bool same_price = has_price_of(limit, receipt.after);
  const bool untouched = state == receipt.after;
  if (untouched && (same_price || back == receipt.taken)) return taken_less(limit, receipt, back);
  if (!same_price) return state;

  now = in_range(now);
  const Int128 debt = debt_at(limit, read(limit, state, ns(now)), ns(now));
  const Int128 owed = surely_owed(limit, receipt, debt, now);
  const Int128 span = std::min(owed, price_of(limit, back));
  if (span <= 0) return state;
  receipt.taken -= static_cast<Permits>(ceil_div(span, limit.pace.price));
  receipt.after.when = kNoInstant;
  return after_refund(limit, state, plus(limit.pace, {ns(now), 0}, debt - span));
}

}  // namespace weir::core
