#include "core/sliding_counter.h"

#include <algorithm>
#include <limits>

#include "base/saturating.h"
#include "core/window.h"

namespace weir::core {

namespace {

// The two counters at `now`. The state has the instant of the last admission and the counters as of
// its window.
struct Counters {
  Instant now;    // never before the instant in the state
  Instant start;  // of the current window
  Permits previous;
  Permits current;
};

Counters counters_at(const SlidingCounter& limit, const State& state, Instant now) {
  const Instant last = instant_of(state.when);
  const Instant t = std::max(in_range(now), last);
  const Span span = aligned_span(limit.period, t);
  const Permits previous = static_cast<Permits>(state.what >> 32);
  const Permits current = static_cast<Permits>(state.what & 0xffff'ffff);
  if (last >= span.start) return {t, span.start, previous, current};
  if (last >= span.start - limit.period) return {t, span.start, current, 0};
  return {t, span.start, 0, 0};
}

State pack(const Counters& c, Permits current) {
  constexpr Permits max = std::numeric_limits<std::uint32_t>::max();
  return {.when = word_of(c.now),
          .what = static_cast<std::uint64_t>(c.previous) << 32 |
                  static_cast<std::uint64_t>(std::min(current, max))};
}

// The part of the previous window that the sliding window still covers.
Nanos covered(const SlidingCounter& limit, const Counters& c) {
  return limit.period - between(c.start, c.now);
}

// The time from the start of a window until the weighted count of `previous` has fallen to `room`.
Nanos faded(const SlidingCounter& limit, Permits previous, Permits room) {
  if (previous <= room) return Nanos{0};
  return limit.period - Nanos{to_int64(Int128{room} * limit.period.count() / previous)};
}

}  // namespace

Result<SlidingCounter, Flaw> SlidingCounter::make(const Rate& rate) {
  const auto window = Window::make(rate, false);
  if (!window) return window.error();
  if (window->count > kMaxSliding) return Flaw::capacity_too_large;
  return SlidingCounter{.count = window->count, .period = window->period};
}

Evaluation decide(const SlidingCounter& limit, const State& state, Instant now, const Ask& ask) {
  if (ask.cost < 0 || ask.cost > limit.count) return impossible(state);
  const Counters c = counters_at(limit, state, now);
  const Permits room = limit.count - ask.cost;
  const bool fits = c.current <= room && Int128{c.previous} * covered(limit, c).count() <=
                                             Int128{room - c.current} * limit.period.count();
  if (fits) return {.next = ask.cost == 0 ? state : pack(c, c.current + ask.cost)};

  const Instant passes = c.current <= room
                             ? later(c.start, faded(limit, c.previous, room - c.current))
                             : later(later(c.start, limit.period), faded(limit, c.current, room));
  return refused(between(in_range(now), passes), state);
}

Permits remaining(const SlidingCounter& limit, const State& state, Instant now) {
  const Counters c = counters_at(limit, state, now);
  const Int128 weighted =
      ceil_div(Int128{c.previous} * covered(limit, c).count(), limit.period.count());
  return std::max<Permits>(limit.count - c.current - static_cast<Permits>(weighted), 0);
}

// The last calls count until the window after theirs is over.
Instant rest_at(const SlidingCounter& limit, const State& state, Instant) {
  if (state.never_seen()) return {};
  const Counters c = counters_at(limit, state, instant_of(state.when));
  if (c.current > 0) return later(later(c.start, limit.period), limit.period);
  return c.previous > 0 ? later(c.start, limit.period) : Instant{};
}

State debit(const SlidingCounter& limit, const State& state, Instant now, Permits cost) {
  if (cost <= 0) return state;
  const Counters c = counters_at(limit, state, now);
  return pack(c, sat_add(c.current, cost));
}

// Possible only in the same window: in the next one the count is weighted, and the exact remainder
// is not known. The instant of the state stays even if both counters become zero.
State refund(const SlidingCounter& limit, const State& state, Instant now, Receipt& receipt,
             Permits back) {
  const Counters c = counters_at(limit, state, now);
  const Instant taken_at = instant_of(receipt.after.when);
  const bool same_window = taken_at >= c.start && taken_at < later(c.start, limit.period);
  back = std::clamp<Permits>(back, 0, std::min(receipt.taken, c.current));
  if (back == 0 || !same_window) return state;
  receipt.taken -= back;
  Counters refunded = c;
  refunded.now = instant_of(state.when);
  return pack(refunded, c.current - back);
}

}  // namespace weir::core
