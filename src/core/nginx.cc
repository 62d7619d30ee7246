#include "core/nginx.h"

#include <algorithm>

#include "base/saturating.h"
#include "core/exact_undo.h"

namespace weir::core {

namespace {

constexpr std::int64_t kMilli = 1000;
constexpr std::int64_t kNanosInMilli = 1'000'000;
// nginx assumes that a clock which went back by more than a minute has wrapped around.
constexpr std::int64_t kWrapped = -60'000;
// Maximum queue length: its thousandths, times a thousand, fit in 64 bits.
constexpr Permits kMaxPlaces = 1'000'000'000'000;

// The decoded state: the backlog in thousandths of a request, and its time in milliseconds.
struct Backlog {
  std::int64_t at;
  std::int64_t owed;
};

Backlog backlog_of(const State& state) {
  return {ns(instant_of(state.when)), static_cast<std::int64_t>(state.what)};
}

State pack(Backlog backlog) {
  return {.when = static_cast<std::uint64_t>(backlog.at),
          .what = static_cast<std::uint64_t>(backlog.owed)};
}

std::int64_t millis(Instant t) { return ns(in_range(t)) / kNanosInMilli; }
Instant at_milli(Int128 milli) { return instant(to_int64(milli * kNanosInMilli)); }

// The milliseconds that nginx counts as passed since `then`.
std::int64_t elapsed(std::int64_t then, std::int64_t now) {
  const std::int64_t passed = now - then;
  if (passed < kWrapped) return 1;
  return std::max<std::int64_t>(passed, 0);
}

std::int64_t drained(const NginxQueue& limit, std::int64_t milliseconds) {
  return to_int64(Int128{limit.milli_rate} * milliseconds / kMilli);
}

std::int64_t owed_at(const NginxQueue& limit, Backlog backlog, std::int64_t now) {
  if (backlog.owed == 0) return 0;
  return std::max<std::int64_t>(sat_sub(backlog.owed, drained(limit, elapsed(backlog.at, now))), 0);
}

// The first instant at which `amount` thousandths have drained from `backlog`.
Instant drained_by(const NginxQueue& limit, Backlog backlog, Int128 amount) {
  if (amount <= 0) return at_milli(backlog.at);
  return at_milli(backlog.at + ceil_div(amount * kMilli, limit.milli_rate));
}

Int128 wait_millis(const NginxQueue& limit, Int128 owed) {
  const Int128 early = owed - kMilli * (Int128{limit.undelayed} + 1);
  return early <= 0 ? 0 : early * kMilli / limit.milli_rate;
}

// The largest backlog under which the wait does not exceed `max_wait`.
Int128 owed_within(const NginxQueue& limit, Nanos max_wait) {
  const Int128 milliseconds = std::max(max_wait, Nanos{0}).count() / kNanosInMilli;
  const Int128 early = ceil_div((milliseconds + 1) * limit.milli_rate, kMilli) - 1;
  return kMilli * (Int128{limit.undelayed} + 1) + early;
}

State charged(Backlog backlog, std::int64_t now, std::int64_t owed) {
  // nginx updates its timestamp only when at least one millisecond counts as passed.
  const bool moves = backlog.owed == 0 || elapsed(backlog.at, now) != 0;
  return pack({moves ? std::max<std::int64_t>(now, 1) : backlog.at, owed});
}

}  // namespace

Result<NginxQueue, Flaw> NginxQueue::make(const Rate& rate, Permits places, Permits undelayed) {
  using std::chrono::minutes;
  using std::chrono::seconds;
  if (rate.count <= 0 || rate.scale <= 0) return Flaw::rate_not_positive;
  if (!rate.whole()) return Flaw::not_whole;
  if (rate.period != seconds{1} && rate.period != minutes{1}) return Flaw::nginx_period;
  if (rate.floor() > kMaxRate / kMilli) return Flaw::rate_too_high;
  if (places < 0 || undelayed < 0) return Flaw::capacity_too_small;
  if (places > kMaxPlaces || undelayed > kMaxPlaces) return Flaw::capacity_too_large;
  const std::int64_t milli_rate =
      rate.floor() * kMilli / std::chrono::duration_cast<seconds>(rate.period).count();
  return NginxQueue{
      .rate = rate, .places = places, .undelayed = undelayed, .milli_rate = milli_rate};
}

Evaluation decide(const NginxQueue& limit, const State& state, Instant now, const Ask& ask) {
  if (ask.cost < 0 || ask.cost > capacity(limit)) return impossible(state);
  const Backlog backlog = backlog_of(state);
  const std::int64_t owed = owed_at(limit, backlog, millis(now));
  const Int128 cost = Int128{ask.cost} * kMilli;
  // nginx counts one per request, so the turn depends on the backlog, not on the call's own cost.
  const Int128 turn = ask.cost > 0 ? Int128{owed} + kMilli : 0;
  const Int128 excess = std::max(owed + cost - Int128{capacity(limit)} * kMilli,
                                 turn - owed_within(limit, ask.max_wait));
  if (excess > 0) {
    // In thousandths since the time of the backlog, including those that have drained by now.
    const Instant passes = drained_by(limit, backlog, Int128{backlog.owed} - owed + excess);
    return refused(until(in_range(now), passes), state);
  }
  return {.wait = Nanos{to_int64(wait_millis(limit, turn) * kNanosInMilli)},
          .next = ask.cost == 0 ? state : charged(backlog, millis(now), to_int64(owed + cost))};
}

std::int64_t max_backlog(const NginxQueue& limit, const Ask& ask) {
  if (ask.cost < 0 || ask.cost > capacity(limit)) return -1;
  const Int128 room = Int128{capacity(limit) - ask.cost} * kMilli;
  if (ask.cost == 0) return to_int64(room);
  return to_int64(std::max<Int128>(std::min(room, owed_within(limit, ask.max_wait) - kMilli), -1));
}

Permits remaining(const NginxQueue& limit, const State& state, Instant now) {
  const std::int64_t owed = owed_at(limit, backlog_of(state), millis(now));
  return std::max<Permits>((capacity(limit) * kMilli - owed) / kMilli, 0);
}

Instant rest_at(const NginxQueue& limit, const State& state, Instant) {
  const Backlog backlog = backlog_of(state);
  return backlog.owed == 0 ? Instant{} : drained_by(limit, backlog, backlog.owed);
}

State debit(const NginxQueue& limit, const State& state, Instant now, Permits cost) {
  if (cost <= 0) return state;
  const Backlog backlog = backlog_of(state);
  const std::int64_t owed = owed_at(limit, backlog, millis(now));
  return charged(backlog, millis(now), to_int64(Int128{cost} * kMilli + owed));
}

// nginx has no refunds. A refund is possible only if the key has not changed since, when the take
// can be undone exactly.
State refund(const NginxQueue& limit, const State& state, Instant, Receipt& receipt, Permits back) {
  return undo_exactly(limit, state, receipt, back);
}

}  // namespace weir::core
