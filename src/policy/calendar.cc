#include "policy/calendar.h"

#include <cctz/civil_time.h>
#include <cctz/time_zone.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "policy/zone.h"

namespace weir::policy {

namespace {

using std::chrono::seconds;
using Seconds = std::chrono::sys_time<seconds>;

cctz::civil_day first_of_month(const cctz::civil_month& month, int anchor) {
  const int length = static_cast<int>(cctz::civil_day(month + 1) - cctz::civil_day(month));
  return cctz::civil_day(month) + (std::min(anchor, length) - 1);
}

cctz::civil_month month_of(const cctz::civil_day& day, int anchor) {
  const cctz::civil_month month(day);
  return day < first_of_month(month, anchor) ? month - 1 : month;
}

cctz::civil_day first_of_year(const cctz::civil_year& year, int anchor) {
  return first_of_month(cctz::civil_month(year), anchor);
}

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

struct Dates {
  cctz::civil_day first;
  cctz::civil_day next;  // first day of the next period
};

Dates period_of(const cctz::civil_day& day, CalendarUnit unit, int anchor) {
  switch (unit) {
    case CalendarUnit::day:
      break;
    case CalendarUnit::week: {
      const cctz::civil_day monday = cctz::prev_weekday(day + 1, cctz::weekday::monday);
      return {monday, monday + 7};
    }
    case CalendarUnit::month: {
      const cctz::civil_month month = month_of(day, anchor);
      return {first_of_month(month, anchor), first_of_month(month + 1, anchor)};
    }
    case CalendarUnit::year: {
      const cctz::civil_year year(day);
      const cctz::civil_year own = day < first_of_year(year, anchor) ? year - 1 : year;
      return {first_of_year(own, anchor), first_of_year(own + 1, anchor)};
    }
  }
  return {day, day + 1};
}

}  // namespace

struct ZoneCalendar::Zone {
  cctz::time_zone tz;

  // The first instant of a date: the transition if midnight is skipped, the earlier instant if it
  // is repeated.
  Seconds start_of(const cctz::civil_day& day) const {
    return cctz::convert(cctz::civil_second(day), tz);
  }
};

ZoneCalendar::ZoneCalendar(CalendarUnit unit, std::string zone, int anchor,
                           std::unique_ptr<Zone> tz)
    : id_(next_id()), unit_(unit), zone_(std::move(zone)), anchor_(anchor), tz_(std::move(tz)) {}

ZoneCalendar::~ZoneCalendar() = default;

Result<std::shared_ptr<const ZoneCalendar>, std::string> ZoneCalendar::make(CalendarUnit unit,
                                                                            const std::string& zone,
                                                                            int anchor) {
  const auto loaded = load_zone(zone);
  if (!loaded) return loaded.error();
  return std::shared_ptr<const ZoneCalendar>(
      new ZoneCalendar(unit, zone, anchor, std::make_unique<Zone>(Zone{*loaded})));
}

// A lookup in the zone costs a hundred times as much as a cached period, and a period is needed
// many times while it lasts. Each thread caches the last period of a few calendars.
core::Span ZoneCalendar::span_at(Instant t) const {
  struct Remembered {
    std::uint64_t id = 0;
    core::Span span;
  };
  thread_local std::array<Remembered, 8> last;
  Remembered& mine = last[id_ % last.size()];
  if (mine.id != id_ || t < mine.span.start || t >= mine.span.end) mine = {id_, look_up(t)};
  return mine.span;
}

core::Span ZoneCalendar::look_up(Instant t) const {
  const Seconds second = std::chrono::floor<seconds>(t);
  Dates dates = period_of(cctz::civil_day(cctz::convert(second, tz_->tz)), unit_, anchor_);
  // A transition back across midnight shows the old date again after the new day has begun.
  if (second >= tz_->start_of(dates.next)) dates = period_of(dates.next, unit_, anchor_);
  return {tz_->start_of(dates.first), tz_->start_of(dates.next)};
}

}  // namespace weir::policy
