#pragma once

#include <memory>

#include "core/choice.h"
#include "core/rate.h"

namespace weir::core {

// From `start` until just before `end`.
struct Span {
  Instant start{};
  Instant end{};
};

// At most `count` permits in a window of fixed length: windows laid end to end from the Unix epoch
// on, or opened by the first admitted call. The known flaw of counting this way: `count` at the end
// of one window and `count` at the start of the next are 2 × `count` in no time. Use a sliding
// window or a bucket where that matters.
//
// The state holds an instant, not the number of a window, so that a changed period finds its
// place: the last admission (aligned) or the window's opening (from the first call). If all of it
// was given back the window is not open, but time does not go back behind that instant.
struct Window {
  Permits count = 1;
  Nanos period{1'000'000'000};
  bool from_first = false;

  static Result<Window, Flaw> make(const Rate& rate, bool from_first);
};

Choice decide(const Window& limit, const State& state, Instant now, const Ask& ask);
Permits remaining(const Window& limit, const State& state, Instant now);
Instant rest_at(const Window& limit, const State& state, Instant now);
State debit(const Window& limit, const State& state, Instant now, Permits cost);
State refund(const Window& limit, const State& state, Instant now, Receipt& receipt, Permits back);
inline Permits capacity(const Window& limit) { return limit.count; }

// Which day, week, month or year of somebody's calendar an instant lies in. Implemented where time
// zones are known (policy/calendar.h). Thread-safe and free of side effects.
class Calendar {
 public:
  virtual ~Calendar() = default;
  virtual Span span_at(Instant t) const = 0;
};

// At most `count` permits in a calendar period. The period is worked out anew at each decision,
// from the calendar: no length of "a day" is kept that daylight saving could make wrong.
struct Quota {
  Permits count = 1;
  std::shared_ptr<const Calendar> calendar{};

  static Result<Quota, Flaw> make(Permits count, std::shared_ptr<const Calendar> calendar);
};

Choice decide(const Quota& limit, const State& state, Instant now, const Ask& ask);
Permits remaining(const Quota& limit, const State& state, Instant now);
Instant rest_at(const Quota& limit, const State& state, Instant now);
State debit(const Quota& limit, const State& state, Instant now, Permits cost);
State refund(const Quota& limit, const State& state, Instant now, Receipt& receipt, Permits back);
inline Permits capacity(const Quota& limit) { return limit.count; }

// The window of length `period` that `t` lies in, counted from the Unix epoch.
Span aligned_span(Nanos period, Instant t);

}  // namespace weir::core
