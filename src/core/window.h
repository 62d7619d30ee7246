#pragma once

#include <memory>

#include "core/evaluation.h"
#include "core/rate.h"

namespace weir::core {

// The half-open interval [start, end).
struct Span {
  Instant start{};
  Instant end{};
};

// At most `count` permits in a window of fixed length. Windows are aligned to the Unix epoch, or
// opened by the first admitted call. Known flaw: `count` at the end of one window and `count` at
// the start of the next make 2 × `count` in a moment. Use a sliding window or a bucket where that
// matters.
//
// The state holds an instant, not a window number, so that it stays valid when the period changes:
// the last admission (aligned windows) or the start of the window (from the first call). When
// everything was given back, no window is open, but time does not go back before that instant.
struct Window {
  Permits count = 1;
  Nanos period{1'000'000'000};
  bool from_first = false;

  static Result<Window, Flaw> make(const Rate& rate, bool from_first);
};

Evaluation decide(const Window& limit, const State& state, Instant now, const Ask& ask);
Permits remaining(const Window& limit, const State& state, Instant now);
Instant rest_at(const Window& limit, const State& state, Instant now);
State debit(const Window& limit, const State& state, Instant now, Permits cost);
State refund(const Window& limit, const State& state, Instant now, Receipt& receipt, Permits back);
inline Permits capacity(const Window& limit) { return limit.count; }

// Maps an instant to the day, week, month or year that contains it. Implemented in
// policy/calendar.h, which knows time zones. Thread-safe and free of side effects.
class Calendar {
 public:
  virtual ~Calendar() = default;
  virtual Span span_at(Instant t) const = 0;
};

// At most `count` permits in a calendar period. The period is computed from the calendar at each
// decision: a stored length of "a day" would be wrong when daylight saving changes.
struct CalendarWindow {
  Permits count = 1;
  std::shared_ptr<const Calendar> calendar{};

  static Result<CalendarWindow, Flaw> make(Permits count, std::shared_ptr<const Calendar> calendar);
};

Evaluation decide(const CalendarWindow& limit, const State& state, Instant now, const Ask& ask);
Permits remaining(const CalendarWindow& limit, const State& state, Instant now);
Instant rest_at(const CalendarWindow& limit, const State& state, Instant now);
State debit(const CalendarWindow& limit, const State& state, Instant now, Permits cost);
State refund(const CalendarWindow& limit, const State& state, Instant now, Receipt& receipt,
             Permits back);
inline Permits capacity(const CalendarWindow& limit) { return limit.count; }

// The window of length `period` that contains `t`, aligned to the Unix epoch.
Span aligned_span(Nanos period, Instant t);

}  // namespace weir::core
