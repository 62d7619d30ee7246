#include "core/bucket.h"

#include <algorithm>
#include <bit>

#include "base/saturating.h"

namespace weir::core {

namespace {

// The second word of the state: 20 bits of a nanosecond's parts, 44 bits of price.
constexpr int kTagBits = 44;
constexpr std::uint64_t kTagMask = (std::uint64_t{1} << kTagBits) - 1;
constexpr std::int64_t kMaxParts = std::int64_t{1} << (64 - kTagBits);

// The price in the state is a small floating-point number: 38 bits of mantissa, 6 of exponent, in
// units of 2^-20 ns. It is rounded down; `repriced` allows for that.
constexpr int kMantissaBits = 38;
constexpr int kUnitBits = 20;

std::uint64_t tag_of(const Pace& pace) {
  Int128 units = (pace.price << kUnitBits) / pace.parts;
  std::uint64_t exponent = 0;
  while (units >> kMantissaBits != 0) {
    units >>= 1;
    ++exponent;
  }
  return exponent << kMantissaBits | static_cast<std::uint64_t>(units);
}

Int128 price_in_units(std::uint64_t tag) {
  constexpr std::uint64_t mantissa_mask = (std::uint64_t{1} << kMantissaBits) - 1;
  return Int128{tag & mantissa_mask} << (tag >> kMantissaBits);
}

// The theoretical arrival time: an instant, and parts of a nanosecond after it.
struct Tat {
  std::int64_t nanos;
  std::int64_t parts;
};

Tat tat_of(const State& state) {
  return {ns(instant_of(state.when)), static_cast<std::int64_t>(state.what >> kTagBits)};
}

State pack(const Bucket& limit, Tat tat) {
  return {.when = static_cast<std::uint64_t>(tat.nanos),
          .what = static_cast<std::uint64_t>(tat.parts) << kTagBits | limit.tag};
}

Tat plus(const Pace& pace, Tat tat, Int128 span) {
  span += tat.parts;
  if (pace.parts == 1) return {tat.nanos + static_cast<std::int64_t>(span), 0};
  const Int128 nanos = quick_div(span, pace.parts);
  return {tat.nanos + static_cast<std::int64_t>(nanos),
          static_cast<std::int64_t>(span - nanos * pace.parts)};
}

Nanos whole_nanos(const Pace& pace, Int128 span) {
  return Nanos{to_int64(pace.parts == 1 ? span : ceil_div(span, pace.parts))};
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

// The tat of a state that another price was reckoned with: the debt in permits stays what it was
// when the limit changed. The old price is known to 38 bits and the old debt to a nanosecond, so
// the debt in permits lies between two close bounds; a whole number between them is the truth.
Tat repriced(const Bucket& limit, const State& state, std::int64_t now) {
  const std::int64_t changed = ns(limit.since);
  const std::int64_t at = changed > 0 ? std::min(changed, now) : now;
  const Tat old = tat_of(state);
  if (old.nanos < at) return {0, 0};

  const Int128 old_price = std::max<Int128>(price_in_units(state.what & kTagMask), 1);
  const Int128 most = Int128{old.nanos - at + (old.parts > 0 ? 1 : 0)} << kUnitBits;
  const Int128 slack =
      (Int128{old.parts > 0 ? 1 : 0} << kUnitBits) + (most >> (kMantissaBits - 1)) + 1;
  const Int128 whole = most / old_price;
  const bool is_whole = most - whole * old_price <= slack && old_price > slack;
  const Int128 rest = is_whole ? 0 : most - whole * old_price;
  return plus(limit.pace, {at, 0}, price_of(limit, whole, rest, old_price));
}

Tat read(const Bucket& limit, const State& state, std::int64_t now) {
  const bool current = (state.what & kTagMask) == limit.tag;
  return current || state.never_seen() ? tat_of(state) : repriced(limit, state, now);
}

Tat not_before(Tat tat, std::int64_t now) { return tat.nanos < now ? Tat{now, 0} : tat; }

Result<Bucket, Flaw> make(const Rate& rate, Permits capacity, Permits at_once, bool queue) {
  if (capacity < 1) return Flaw::capacity_too_small;
  if (capacity > kMaxPermits) return Flaw::capacity_too_large;
  const auto pace = Pace::of(rate, kMaxParts);
  if (!pace) return pace.error();
  constexpr Int128 too_deep = Int128{1} << 124;
  if (capacity > too_deep / pace->price) return Flaw::capacity_too_large;

  Bucket limit{.rate = rate, .capacity = capacity, .at_once = at_once, .queue = queue};
  limit.pace = *pace;
  limit.depth = capacity * pace->price;
  limit.free = at_once * pace->price;
  limit.ceiling = in_parts(*pace, kLongestDebt);
  if (queue) limit.ceiling = std::min(limit.ceiling, limit.depth);
  limit.tag = tag_of(*pace);
  return limit;
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

Choice decide(const Bucket& limit, const State& state, Instant now, const Ask& ask) {
  now = in_range(now);
  if (ask.cost < 0 || ask.cost > limit.capacity) return impossible(state);
  const Int128 cost = ask.cost * limit.pace.price;
  const Int128 patience = in_parts(limit.pace, std::max(ask.max_wait, Nanos{0}));
  const Int128 bound = std::min(limit.free + patience, limit.ceiling);
  if (cost > bound) return impossible(state);

  const Tat tat = not_before(read(limit, state, ns(now)), ns(now));
  const Int128 debt = debt_at(limit, tat, ns(now)) + cost;
  if (debt > bound) return refused(whole_nanos(limit.pace, debt - bound), state);
  const Int128 wait = debt - limit.free;
  return {.wait = wait > 0 ? whole_nanos(limit.pace, wait) : Nanos{0},
          .next = ask.cost == 0 ? state : pack(limit, plus(limit.pace, tat, cost))};
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
  return pack(limit, plus(limit.pace, tat, std::min(room, price_of(limit, cost))));
}

State reprice(const Bucket& limit, const State& state, Instant now) {
  if (state.never_seen()) return state;
  return pack(limit, not_before(read(limit, state, ns(in_range(now))), ns(in_range(now))));
}

// Giving back must leave the bucket as if less had been taken in the first place. When nothing
// happened since, that is replayed. Otherwise it is sure only for what would still be owed if this
// call's permits had been the first to drain: up to that point the bucket never ran dry in either
// story, so the two differ by just the permits given back. Callers that were told to wait for
// their turn keep it: time counts as drained up to the last of their turns.
State refund(const Bucket& limit, const State& state, Instant now, Receipt& receipt, Permits back) {
  back = std::clamp<Permits>(back, 0, receipt.taken);
  if (back == 0) return state;
  if (state == receipt.after) {
    receipt.taken -= back;
    receipt.after = receipt.taken == 0 ? receipt.before
                                       : debit(limit, receipt.before, receipt.at, receipt.taken);
    return receipt.after;
  }
  now = in_range(now);
  const Tat tat = read(limit, state, ns(now));
  const Int128 debt = debt_at(limit, tat, ns(now));
  const Int128 last_turn = std::max<Int128>(debt - limit.free, 0);
  const Int128 passed = in_parts(limit.pace, until(receipt.at, now)) + last_turn;
  const Int128 undrained = price_of(limit, receipt.taken) - passed;
  const Int128 span = std::min({undrained, price_of(limit, back), debt});
  if (span <= 0) return state;
  receipt.taken -= static_cast<Permits>(ceil_div(span, limit.pace.price));
  return pack(limit, plus(limit.pace, {ns(now), 0}, debt - span));
}

}  // namespace weir::core
