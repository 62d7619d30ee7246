#pragma once

#include <cctz/time_zone.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/window.h"
#include "policy/limit.h"

// Other limits at other hours. A schedule is a list of shifts; of those that a time lies in, the
// first one holds.

namespace weir::policy {

// Some hours of some days of the week, somewhere on earth: from the first moment at which the
// clocks there show `from` until the first moment at which they show `to`. A day on which clocks
// are put forward or back has fewer or more of them.
struct Hours {
  static constexpr std::uint8_t kEveryDay = 0x7f;

  std::uint8_t days = kEveryDay;  // bit 0: Monday. The days on which the hours begin
  std::chrono::minutes from{0};   // since midnight
  std::chrono::minutes to{std::chrono::hours{24}};  // not after `from`: of the day after
  cctz::time_zone zone{};                           // UTC unless given
};

// "mon-fri 09:00-18:00 in Europe/Berlin".
std::string to_text(const Hours& hours);

struct Shift {
  Hours hours;
  std::vector<Limit> limits;
};

using Schedule = std::vector<Shift>;

// What holds at a time, and during which span around it: a shift by its position, or none.
struct Held {
  std::optional<std::size_t> shift;
  core::Span span;
};
Held held_at(const Schedule& schedule, Instant t);

using Schedules = std::vector<const Schedule*>;

// When something else comes to its end, in no order.
using Ends = std::vector<Instant>;

// The span around `t` in which no schedule changes what holds and nothing ends; all of time if
// there are none.
core::Span steady_span(const Schedules& schedules, Instant t, const Ends& ends = {});

// Clocks are corrected by a little, also backwards, and threads do not read them in turn. Limits
// that have begun to hold go on when the time is this much before their beginning.
inline constexpr Nanos kClockSlack = std::chrono::minutes{1};

// Whether limits that hold for that span are still those to use at `t`.
constexpr bool holds_at(const core::Span& span, Instant t) {
  const bool over = t >= span.end && span.end != Instant::max();
  return !over && (t >= span.start || t + kClockSlack >= span.start);
}

// When the limits that hold for `span` have to be made anew so that they are those of `now`: at
// each change since, so that every stretch of time counts by what held then. If there were many,
// the last ones: what happened before them hardly matters. If the clock was put back, now.
std::vector<Instant> changes_until(const Schedules& schedules, const core::Span& span, Instant now,
                                   const Ends& ends = {});

}  // namespace weir::policy
