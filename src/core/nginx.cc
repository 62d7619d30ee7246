#include "core/nginx.h"

#include <algorithm>

#include "base/saturating.h"
#include "core/replay.h"

namespace weir::core {

namespace {

constexpr std::int64_t kMilli = 1000;
constexpr std::int64_t kNanosInMilli = 1'000'000;
// nginx takes a clock that went back by more than a minute for one that wrapped around.
constexpr std::int64_t kWrapped = -60'000;
// Requests in the queue at most: their thousandths, times a thousand, stay within 64 bits.
constexpr Permits kMaxPlaces = 1'000'000'000'000;

// State: the instant (in milliseconds) at which the level held; the level in thousandths.
struct Level {
  std::int64_t at;
  std::int64_t owed;
};

Level level_of(const State& state) {
  return {ns(instant_of(state.when)), static_cast<std::int64_t>(state.what)};
}

State pack(Level level) {
  return {.when = static_cast<std::uint64_t>(level.at),
          .what = static_cast<std::uint64_t>(level.owed)};
}

std::int64_t millis(Instant t) { return ns(in_range(t)) / kNanosInMilli; }
Instant at_milli(Int128 milli) { return instant(to_int64(milli * kNanosInMilli)); }

// Milliseconds that count as passed since `then`.
std::int64_t elapsed(std::int64_t then, std::int64_t now) {
  const std::int64_t passed = now - then;
  if (passed < kWrapped) return 1;
  return std::max<std::int64_t>(passed, 0);
}

std::int64_t drained(const NginxQueue& limit, std::int64_t milliseconds) {
  return to_int64(Int128{limit.milli_rate} * milliseconds / kMilli);
}

std::int64_t owed_at(const NginxQueue& limit, Level level, std::int64_t now) {
  if (level.owed == 0) return 0;
  return std::max<std::int64_t>(sat_sub(level.owed, drained(limit, elapsed(level.at, now))), 0);
}

// The first instant by which `amount` thousandths have drained from `level`.
Instant drained_by(const NginxQueue& limit, Level level, Int128 amount) {
  if (amount <= 0) return at_milli(level.at);
  return at_milli(level.at + ceil_div(amount * kMilli, limit.milli_rate));
}

Int128 wait_millis(const NginxQueue& limit, Int128 owed) {
  const Int128 early = owed - kMilli * (Int128{limit.undelayed} + 1);
  return early <= 0 ? 0 : early * kMilli / limit.milli_rate;
}

// The most that may be owed so that the wait does not exceed `max_wait`.
Int128 owed_within(const NginxQueue& limit, Nanos max_wait) {
  const Int128 milliseconds = std::max(max_wait, Nanos{0}).count() / kNanosInMilli;
  const Int128 early = ceil_div((milliseconds + 1) * limit.milli_rate, kMilli) - 1;
  return kMilli * (Int128{limit.undelayed} + 1) + early;
}

State charged(Level level, std::int64_t now, std::int64_t owed) {
  // nginx moves its clock only when at least a millisecond counts as passed.
  const bool moves = level.owed == 0 || elapsed(level.at, now) != 0;
  return pack({moves ? std::max<std::int64_t>(now, 1) : level.at, owed});
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

Choice decide(const NginxQueue& limit, const State& state, Instant now, const Ask& ask) {
  if (ask.cost < 0 || ask.cost > capacity(limit)) return impossible(state);
  const Level level = level_of(state);
  const std::int64_t owed = owed_at(limit, level, millis(now));
  const Int128 cost = Int128{ask.cost} * kMilli;
  // nginx counts one for each request: a call's turn comes by what others owe, whatever it costs.
  const Int128 turn = ask.cost > 0 ? Int128{owed} + kMilli : 0;
  const Int128 too_much = std::max(owed + cost - Int128{capacity(limit)} * kMilli,
                                   turn - owed_within(limit, ask.max_wait));
  if (too_much > 0) {
    // In thousandths since the level held; what has drained by now is among them.
    const Instant passes = drained_by(limit, level, Int128{level.owed} - owed + too_much);
    return refused(until(in_range(now), passes), state);
  }
  return {.wait = Nanos{to_int64(wait_millis(limit, turn) * kNanosInMilli)},
          .next = ask.cost == 0 ? state : charged(level, millis(now), to_int64(owed + cost))};
}

std::int64_t most_owed(const NginxQueue& limit, const Ask& ask) {
  if (ask.cost < 0 || ask.cost > capacity(limit)) return -1;
  const Int128 room = Int128{capacity(limit) - ask.cost} * kMilli;
  if (ask.cost == 0) return to_int64(room);
  return to_int64(std::max<Int128>(std::min(room, owed_within(limit, ask.max_wait) - kMilli), -1));
}

Permits remaining(const NginxQueue& limit, const State& state, Instant now) {
  const std::int64_t owed = owed_at(limit, level_of(state), millis(now));
  return std::max<Permits>((capacity(limit) * kMilli - owed) / kMilli, 0);
}

Instant rest_at(const NginxQueue& limit, const State& state, Instant) {
  const Level level = level_of(state);
  return level.owed == 0 ? Instant{} : drained_by(limit, level, level.owed);
}

State debit(const NginxQueue& limit, const State& state, Instant now, Permits cost) {
  if (cost <= 0) return state;
  const Level level = level_of(state);
  const std::int64_t owed = owed_at(limit, level, millis(now));
  return charged(level, millis(now), to_int64(Int128{cost} * kMilli + owed));
}

// nginx knows no refund. It is given only while nothing else has happened to the key, when it can
// be replayed exactly.
State refund(const NginxQueue& limit, const State& state, Instant, Receipt& receipt, Permits back) {
  return replayed_with_less(limit, state, receipt, back);
}

}  // namespace weir::core
