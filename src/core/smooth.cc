#include "core/smooth.h"

#include <algorithm>

#include "base/saturating.h"
#include "core/replay.h"

namespace weir::core {

namespace {

using savings::kPartsBits;
using savings::kSavedBits;

// A change of the rate may change what a part is, but that is less than a nanosecond then.
constexpr std::int64_t kMaxParts = std::int64_t{1} << kPartsBits;
constexpr std::uint64_t kPartsMask = kMaxParts - 1;
constexpr std::uint64_t kSavedMask = (std::uint64_t{1} << kSavedBits) - 1;

// Both in parts of a nanosecond.
struct Books {
  Int128 next;  // since the epoch: when the next caller is let in
  Int128 saved;
};

Int128 in_parts(const Smooth& limit, std::int64_t nanos) {
  return Int128{nanos} * limit.pace.parts;
}

// The books as they were last written.
Books unpack(const Smooth& limit, const State& state) {
  const auto part = [&](std::uint64_t bits) {
    return std::min<std::int64_t>(static_cast<std::int64_t>(bits & kPartsMask),
                                  limit.pace.parts - 1);
  };
  const auto saved = static_cast<std::int64_t>(state.what >> kPartsBits & kSavedMask);
  return {in_parts(limit, ns(instant_of(state.when))) + part(state.what >> (64 - kPartsBits)),
          std::min(in_parts(limit, saved) + part(state.what), limit.full)};
}

State pack(const Smooth& limit, Books books) {
  const Int128 parts = limit.pace.parts;
  const Int128 next = std::min(books.next, in_parts(limit, ns(kLatest)));
  return {.when = static_cast<std::uint64_t>(next / parts),
          .what = static_cast<std::uint64_t>(next % parts) << (64 - kPartsBits) |
                  static_cast<std::uint64_t>(books.saved / parts) << kPartsBits |
                  static_cast<std::uint64_t>(books.saved % parts)};
}

// The books as they stand at `now`: time in which nobody owed has been saved up. A key never seen
// is at rest.
Books read(const Smooth& limit, const State& state, Int128 now) {
  if (state.never_seen()) return {now, limit.full};
  const Books books = unpack(limit, state);
  if (now <= books.next) return books;
  return {now, std::min(books.saved + (now - books.next), limit.full)};
}

// What the caller owes for drawing `drawn` from savings.
Int128 price_of_savings(const Smooth& limit, Int128 saved, Int128 drawn) {
  if (!limit.warms_up()) return 0;
  const Int128 warmup = limit.full;
  // Above the half the price per saved time is 4 × saved / warmup - 1: integrate it.
  const Int128 cold = std::clamp<Int128>(saved - warmup / 2, 0, drawn);
  if (cold == 0) return drawn;
  return ceil_div(2 * cold * (2 * saved - cold), warmup) - cold + (drawn - cold);
}

Books charged(const Smooth& limit, Books books, Permits permits) {
  const Int128 longest = in_parts(limit, ns(kLatest));
  const Int128 price = permits > longest / limit.pace.price ? longest : permits * limit.pace.price;
  const Int128 drawn = std::min(price, books.saved);
  const Int128 owed = price_of_savings(limit, books.saved, drawn) + (price - drawn);
  return {books.next + owed, books.saved - drawn};
}

Nanos whole_nanos(const Smooth& limit, Int128 span) {
  return Nanos{to_int64(ceil_div(span, limit.pace.parts))};
}

}  // namespace

Result<Smooth, Flaw> Smooth::make(const Rate& rate) {
  const auto pace = Pace::of(rate, kMaxParts);
  if (!pace) return pace.error();
  if (rate.count / rate.scale > rate.period.count()) return Flaw::rate_too_high;
  Smooth limit{.rate = rate, .pace = *pace};
  // One second's worth of permits, each at its price: a second, or a hair more if rounded up.
  constexpr std::int64_t second = 1'000'000'000;
  const Int128 per_period = Int128{rate.scale} * rate.period.count();
  const Int128 stock = pace->price * rate.count / per_period * second +
                       ceil_div(pace->price * rate.count % per_period * second, per_period);
  limit.full = std::max(in_parts(limit, second), stock);
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

Choice decide(const Smooth& limit, const State& state, Instant now, const Ask& ask) {
  if (ask.cost < 0) return impossible(state);
  const Int128 at = in_parts(limit, ns(in_range(now)));
  const Books books = read(limit, state, at);
  const Int128 patience = in_parts(limit, std::max(ask.max_wait, Nanos{0}).count());
  const Int128 wait = books.next - at;
  if (wait > patience) return refused(whole_nanos(limit, wait - patience), state);
  return {.wait = whole_nanos(limit, wait),
          .next = ask.cost == 0 ? state : pack(limit, charged(limit, books, ask.cost))};
}

// Single permits that would be let in one after the other: those paid from savings and one on
// credit. Permits of a cold limiter have a price, so the first one already leaves a debt.
Permits remaining(const Smooth& limit, const State& state, Instant now) {
  const Int128 at = in_parts(limit, ns(in_range(now)));
  const Books books = read(limit, state, at);
  if (books.next > at) return 0;
  return limit.warms_up() ? 1 : static_cast<Permits>(books.saved / limit.pace.price) + 1;
}

Permits capacity(const Smooth& limit) {
  return limit.warms_up() ? 1 : static_cast<Permits>(limit.full / limit.pace.price) + 1;
}

Instant rest_at(const Smooth& limit, const State& state, Instant) {
  if (state.never_seen()) return {};
  const Books books = unpack(limit, state);
  return instant(to_int64(ceil_div(books.next + limit.full - books.saved, limit.pace.parts)));
}

State debit(const Smooth& limit, const State& state, Instant now, Permits cost) {
  if (cost <= 0) return state;
  const Books books = read(limit, state, in_parts(limit, ns(in_range(now))));
  return pack(limit, charged(limit, books, cost));
}

// Whoever came later was told its wait by what this call owed, so a refund is possible only while
// nothing has happened since.
State refund(const Smooth& limit, const State& state, Instant, Receipt& receipt, Permits back) {
  return replayed_with_less(limit, state, receipt, back);
}

State created_empty(Instant now) { return {.when = word_of(in_range(now))}; }

}  // namespace weir::core
