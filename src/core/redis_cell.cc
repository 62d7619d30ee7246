#include "core/redis_cell.h"

#include <algorithm>

#include "base/saturating.h"

namespace weir::core {

namespace {

constexpr Int128 kSecond = 1'000'000'000;
constexpr Int128 kMicro = 1000;

// The theoretical arrival time; `now` for a key never seen.
Instant arrival(const State& state, Instant now) {
  return std::max(instant_of(state.when), in_range(now));
}

// The theoretical arrival time after a charge, which may be negative.
Int128 charged(const RedisCell& limit, const State& state, Instant now, Permits cost) {
  return ns(arrival(state, now)) + Int128{limit.price.count()} * cost;
}

}  // namespace

Result<RedisCell, Flaw> RedisCell::make(Permits burst, Permits count, Permits period_seconds) {
  if (count <= 0) return Flaw::rate_not_positive;
  if (period_seconds <= 0) return Flaw::period_not_positive;
  if (burst < 0) return Flaw::capacity_too_small;
  if (burst >= kMaxPermits) return Flaw::capacity_too_large;
  const auto bounded = [](Int128 nanos) { return std::min(nanos, Int128{kLongestDebt.count()}); };
  const Int128 price = bounded(Int128{period_seconds} * kSecond / count);
  if (price == 0) return Flaw::rate_too_high;  // permits would cost nothing
  const Int128 depth = bounded(price * (Int128{burst} + 1));
  return RedisCell{
      .capacity = burst + 1, .price = Nanos{to_int64(price)}, .depth = Nanos{to_int64(depth)}};
}

Evaluation decide(const RedisCell& limit, const State& state, Instant now, const Ask& ask) {
  const Int128 next = charged(limit, state, now, ask.cost);
  const Int128 excess = next - ns(in_range(now)) - limit.depth.count();
  if (excess > 0) {
    const bool fits = Int128{limit.price.count()} * ask.cost <= limit.depth.count();
    return fits ? refused(Nanos{to_int64(excess)}, state) : impossible(state);
  }
  if (next < ns(in_range(now))) {
    return {.outcome = Outcome::impossible, .next = {.when = word_of(in_range(now))}};
  }
  if (ask.cost == 0) return {.next = state};
  return {.next = {.when = static_cast<std::uint64_t>(to_int64(next))}};
}

// Counts in whole microseconds, as redis-cell does, unless a permit costs less than one.
Permits remaining(const RedisCell& limit, const State& state, Instant now) {
  const Int128 room = limit.depth.count() - until(in_range(now), arrival(state, now)).count();
  const Int128 unit = limit.price.count() >= kMicro ? kMicro : 1;
  const Int128 price = limit.price.count() / unit;
  return to_int64(std::max<Int128>(room / unit / price, 0));
}

Instant rest_at(const RedisCell&, const State& state, Instant) { return instant_of(state.when); }

State debit(const RedisCell& limit, const State& state, Instant now, Permits cost) {
  if (cost <= 0) return state;
  const Int128 latest = ns(kLatest);
  return {.when = static_cast<std::uint64_t>(
              to_int64(std::min(charged(limit, state, now, cost), latest)))};
}

// redis-cell has no refunds, only negative costs.
State refund(const RedisCell&, const State& state, Instant, Receipt&, Permits) { return state; }

}  // namespace weir::core
