#include "core/smooth.h"

#include <algorithm>

#include "base/saturating.h"
#include "core/exact_undo.h"

namespace weir::core {

namespace {

using savings::kPartsBits;
using savings::kSavedBits;

// A change of the rate may change the size of a part; the resulting error is below a nanosecond.
constexpr std::int64_t kMaxParts = std::int64_t{1} << kPartsBits;
constexpr std::uint64_t kPartsMask = kMaxParts - 1;
constexpr std::uint64_t kSavedMask = (std::uint64_t{1} << kSavedBits) - 1;

// The decoded state, in parts of a nanosecond.
struct Balance {
  Int128 next;   // since the Unix epoch: the turn of the next caller
  Int128 saved;  // saved time
};

Int128 in_parts(const Smooth& limit, std::int64_t nanos) {
  return Int128{nanos} * limit.interval.parts;
}

// The balance as it was last written.
Balance unpack(const Smooth& limit, const State& state) {
  const auto part = [&](std::uint64_t bits) {
    return std::min<std::int64_t>(static_cast<std::int64_t>(bits & kPartsMask),
                                  limit.interval.parts - 1);
  };
  const auto saved = static_cast<std::int64_t>(state.what >> kPartsBits & kSavedMask);
  return {in_parts(limit, ns(instant_of(state.when))) + part(state.what >> (64 - kPartsBits)),
          std::min(in_parts(limit, saved) + part(state.what), limit.full)};
}

State pack(const Smooth& limit, Balance balance) {
  const Int128 parts = limit.interval.parts;
  const Int128 next = std::min(balance.next, in_parts(limit, ns(kLatest)));
  return {.when = static_cast<std::uint64_t>(next / parts),
          .what = static_cast<std::uint64_t>(next % parts) << (64 - kPartsBits) |
                  static_cast<std::uint64_t>(balance.saved / parts) << kPartsBits |
                  static_cast<std::uint64_t>(balance.saved % parts)};
}

// The balance at `now`: idle time since the last write has been saved up. A key never seen is at
// rest.
Balance balance_at(const Smooth& limit, const State& state, Int128 now) {
  if (state.never_seen()) return {now, limit.full};
  const Balance balance = unpack(limit, state);
  if (now <= balance.next) return balance;
  return {now, std::min(balance.saved + (now - balance.next), limit.full)};
}

// The debt that results from drawing `drawn` from savings.
Int128 price_of_savings(const Smooth& limit, Int128 saved, Int128 drawn) {
  if (!limit.warms_up()) return 0;
  const Int128 warmup = limit.full;
  // Above half of the warm-up, the price per saved time is 4 × saved / warmup - 1; this is its
  // integral.
  const Int128 cold = std::clamp<Int128>(saved - warmup / 2, 0, drawn);
  if (cold == 0) return drawn;
  return ceil_div(2 * cold * (2 * saved - cold), warmup) - cold + (drawn - cold);
}

Balance charged(const Smooth& limit, Balance balance, Permits permits) {
  const Int128 longest = in_parts(limit, ns(kLatest));
  const Int128 price =
      permits > longest / limit.interval.price ? longest : permits * limit.interval.price;
  const Int128 drawn = std::min(price, balance.saved);
  const Int128 owed = price_of_savings(limit, balance.saved, drawn) + (price - drawn);
  return {balance.next + owed, balance.saved - drawn};
}

Nanos whole_nanos(const Smooth& limit, Int128 span) {
  return Nanos{to_int64(ceil_div(span, limit.interval.parts))};
}

}  // namespace

Result<Smooth, Flaw> Smooth::make(const Rate& rate) {
  const auto pace = EmissionInterval::of(rate, kMaxParts);
  if (!pace) return pace.error();
  if (rate.count / rate.scale > rate.period.count()) return Flaw::rate_too_high;
  Smooth limit{.rate = rate, .interval = *pace};
  // The total price of one second's permits: one second, or slightly more because the price of a
  // permit is rounded up.
  constexpr std::int64_t second = 1'000'000'000;
  const Int128 per_period = Int128{rate.scale} * rate.period.count();
  const Int128 one_second = pace->price * rate.count / per_period * second +
                            ceil_div(pace->price * rate.count % per_period * second, per_period);
  limit.full = std::max(in_parts(limit, second), one_second);
  return limit;
}

Result<Smooth, Flaw> Smooth::make_warming(const Rate& rate, Nanos warmup) {
  if (warmup > kLongestWarmup) return Flaw::warmup_too_long;
  auto limit = make(rate);
  if (!limit) return limit;
  limit->warmup = std::max(warmup, Nanos{0});
  limit->full = in_parts(*limit, limit->warmup.count());
  return limit;
}

Evaluation decide(const Smooth& limit, const State& state, Instant now, const Ask& ask) {
  if (ask.cost < 0) return impossible(state);
  const Int128 at = in_parts(limit, ns(in_range(now)));
  const Balance balance = balance_at(limit, state, at);
  const Int128 max_wait = in_parts(limit, std::max(ask.max_wait, Nanos{0}).count());
  const Int128 wait = balance.next - at;
  if (wait > max_wait) return refused(whole_nanos(limit, wait - max_wait), state);
  return {.wait = whole_nanos(limit, wait),
          .next = ask.cost == 0 ? state : pack(limit, charged(limit, balance, ask.cost))};
}

// The number of single permits that would be admitted at once: those paid from savings and one on
// credit. With a warm-up, permits from savings have a price, so the first one already leaves a
// debt.
Permits remaining(const Smooth& limit, const State& state, Instant now) {
  const Int128 at = in_parts(limit, ns(in_range(now)));
  const Balance balance = balance_at(limit, state, at);
  if (balance.next > at) return 0;
  return limit.warms_up() ? 1 : static_cast<Permits>(balance.saved / limit.interval.price) + 1;
}

Permits capacity(const Smooth& limit) {
  return limit.warms_up() ? 1 : static_cast<Permits>(limit.full / limit.interval.price) + 1;
}

Instant rest_at(const Smooth& limit, const State& state, Instant) {
  if (state.never_seen()) return {};
  const Balance balance = unpack(limit, state);
  return instant(
      to_int64(ceil_div(balance.next + limit.full - balance.saved, limit.interval.parts)));
}

State debit(const Smooth& limit, const State& state, Instant now, Permits cost) {
  if (cost <= 0) return state;
  const Balance balance = balance_at(limit, state, in_parts(limit, ns(in_range(now))));
  return pack(limit, charged(limit, balance, cost));
}

// The wait of a later caller includes this call's debt, so a refund is possible only while there is
// no later caller.
State refund(const Smooth& limit, const State& state, Instant, Receipt& receipt, Permits back) {
  return undo_exactly(limit, state, receipt, back);
}

State created_empty(Instant now) { return {.when = word_of(in_range(now))}; }

}  // namespace weir::core
