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

// Schedules: other limits at some hours. A schedule is a list of shifts; the first shift that
// contains a time applies.

namespace weir::policy {

// Hours of some days of the week in a time zone: from the first instant with local time `from` to
// the first instant with local time `to`. When daylight saving begins or ends between them, the
// span is shorter or longer.
struct Hours {
  static constexpr std::uint8_t kEveryDay = 0x7f;

  std::uint8_t days = kEveryDay;                    // on which the hours begin; bit 0: Monday
  std::chrono::minutes from{0};                     // since midnight
  std::chrono::minutes to{std::chrono::hours{24}};  // if not after `from`: on the next day
  cctz::time_zone zone{};                           // UTC unless given
};

// "mon-fri 09:00-18:00 in Europe/Berlin".
std::string to_text(const Hours& hours);

struct Shift {
  Hours hours;
  std::vector<Limit> limits;
};

using Schedule = std::vector<Shift>;

// The shift that applies at a time (by position; none: the default limits), and the span in which
// it applies.
struct ActiveShift {
  std::optional<std::size_t> shift;
  core::Span span;
};
ActiveShift active_shift_at(const Schedule& schedule, Instant t);

using Schedules = std::vector<const Schedule*>;

// End times of other temporary changes, unsorted.
using Ends = std::vector<Instant>;

// The span around `t` in which no schedule changes its shift and no end time lies; all of time if
// there are none.
core::Span steady_span(const Schedules& schedules, Instant t, const Ends& ends = {});

// NTP steps clocks back by a little, and threads read them out of order: limits stay in force when
// the time is up to this much before their beginning.
inline constexpr Nanos kClockSlack = std::chrono::minutes{1};

// True if limits that apply in `span` may still be used at `t`.
constexpr bool holds_at(const core::Span& span, Instant t) {
  const bool over = t >= span.end && span.end != Instant::max();
  return !over && (t >= span.start || t + kClockSlack >= span.start);
}

// The times at which the limits of `span` change until `now`. The limits are replaced at each of
// them in turn, so that usage drains at the rate that was in force at the time. At most the last
// kMaxChanges: earlier changes hardly matter by then. If the clock was set back: `now` alone.
std::vector<Instant> changes_until(const Schedules& schedules, const core::Span& span, Instant now,
                                   const Ends& ends = {});

}  // namespace weir::policy
