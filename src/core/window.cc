#include "core/window.h"

#include <algorithm>

#include "base/saturating.h"

namespace weir::core {

namespace {

// The state has an instant of the window (see `mark`) and the permits used in it.
Permits used_of(const State& state) {
  return static_cast<Permits>(std::min<std::uint64_t>(state.what, kMaxPermits));
}

State pack(Instant mark, Permits used) {
  return {.when = word_of(mark), .what = static_cast<std::uint64_t>(used)};
}

// If the clock has stepped back, the time of the state is used: the same window stays in force.
Instant not_before_state(const State& state, Instant now) {
  return std::max(in_range(now), instant_of(state.when));
}

Span span_at(const Window& limit, const State& state, Instant t) {
  if (!limit.from_first) return aligned_span(limit.period, t);
  const Instant opened = instant_of(state.when);
  if (state.what > 0 && t < later(opened, limit.period)) {
    return {opened, later(opened, limit.period)};
  }
  return {t, later(t, limit.period)};
}

Span span_at(const CalendarWindow& limit, const State&, Instant t) {
  return limit.calendar->span_at(t);
}

// The instant to store, from which the window is found again later.
Instant mark(const Window& limit, Span span, Instant t) {
  return limit.from_first ? span.start : t;
}
Instant mark(const CalendarWindow&, Span, Instant t) { return t; }

struct Usage {
  Instant now;
  Span span;
  Permits used;
};

template <typename Limit>
Usage usage_at(const Limit& limit, const State& state, Instant now) {
  const Instant t = not_before_state(state, now);
  const Span span = span_at(limit, state, t);
  const bool same_window = !state.never_seen() && instant_of(state.when) >= span.start;
  return {t, span, same_window ? used_of(state) : 0};
}

template <typename Limit>
State charged(const Limit& limit, const Usage& usage, Permits cost) {
  return pack(mark(limit, usage.span, usage.now), std::min(usage.used + cost, kMaxPermits));
}

template <typename Limit>
Evaluation decide_in_window(const Limit& limit, const State& state, Instant now, const Ask& ask) {
  if (ask.cost < 0 || ask.cost > limit.count) return impossible(state);
  const Usage usage = usage_at(limit, state, now);
  if (usage.used > limit.count - ask.cost) {
    return refused(between(in_range(now), usage.span.end), state);
  }
  return {.next = ask.cost == 0 ? state : charged(limit, usage, ask.cost)};
}

template <typename Limit>
Permits remaining_in_window(const Limit& limit, const State& state, Instant now) {
  return std::max<Permits>(limit.count - usage_at(limit, state, now).used, 0);
}

template <typename Limit>
Instant window_end(const Limit& limit, const State& state) {
  if (state.what == 0) return {};
  return span_at(limit, state, instant_of(state.when)).end;
}

template <typename Limit>
State debit_in_window(const Limit& limit, const State& state, Instant now, Permits cost) {
  if (cost <= 0) return state;
  return charged(limit, usage_at(limit, state, now), std::min(cost, kMaxPermits));
}

// Counts are commutative, so a take can be given back in any order within the same window. The
// instant of the state stays even if the count becomes zero.
template <typename Limit>
State refund_in_window(const Limit& limit, const State& state, Instant now, Receipt& receipt,
                       Permits back) {
  const Usage usage = usage_at(limit, state, now);
  const bool same_window = instant_of(receipt.after.when) >= usage.span.start &&
                           instant_of(receipt.after.when) < usage.span.end;
  back = std::clamp<Permits>(back, 0, std::min(receipt.taken, usage.used));
  if (back == 0 || !same_window) return state;
  receipt.taken -= back;
  return {.when = state.when, .what = static_cast<std::uint64_t>(usage.used - back)};
}

}  // namespace

Span aligned_span(Nanos period, Instant t) {
  const Instant start{t.time_since_epoch() - t.time_since_epoch() % period};
  return {start, later(start, period)};
}

Result<Window, Flaw> Window::make(const Rate& rate, bool from_first) {
  if (rate.count <= 0 || rate.scale <= 0) return Flaw::rate_not_positive;
  if (!rate.whole()) return Flaw::not_whole;
  if (rate.floor() > kMaxPermits) return Flaw::capacity_too_large;
  if (rate.period <= Nanos{0}) return Flaw::period_not_positive;
  if (rate.period > kLongestDebt) return Flaw::period_too_long;
  return Window{.count = rate.floor(), .period = rate.period, .from_first = from_first};
}

Evaluation decide(const Window& limit, const State& state, Instant now, const Ask& ask) {
  return decide_in_window(limit, state, now, ask);
}
Permits remaining(const Window& limit, const State& state, Instant now) {
  return remaining_in_window(limit, state, now);
}
Instant rest_at(const Window& limit, const State& state, Instant) {
  return window_end(limit, state);
}
State debit(const Window& limit, const State& state, Instant now, Permits cost) {
  return debit_in_window(limit, state, now, cost);
}
State refund(const Window& limit, const State& state, Instant now, Receipt& receipt, Permits back) {
  return refund_in_window(limit, state, now, receipt, back);
}

Result<CalendarWindow, Flaw> CalendarWindow::make(Permits count,
                                                  std::shared_ptr<const Calendar> calendar) {
  if (count <= 0) return Flaw::rate_not_positive;
  if (count > kMaxPermits) return Flaw::capacity_too_large;
  return CalendarWindow{.count = count, .calendar = std::move(calendar)};
}

Evaluation decide(const CalendarWindow& limit, const State& state, Instant now, const Ask& ask) {
  return decide_in_window(limit, state, now, ask);
}
Permits remaining(const CalendarWindow& limit, const State& state, Instant now) {
  return remaining_in_window(limit, state, now);
}
Instant rest_at(const CalendarWindow& limit, const State& state, Instant) {
  return window_end(limit, state);
}
State debit(const CalendarWindow& limit, const State& state, Instant now, Permits cost) {
  return debit_in_window(limit, state, now, cost);
}
State refund(const CalendarWindow& limit, const State& state, Instant now, Receipt& receipt,
             Permits back) {
  return refund_in_window(limit, state, now, receipt, back);
}

}  // namespace weir::core
