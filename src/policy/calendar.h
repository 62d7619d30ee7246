#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/window.h"
#include "weir/result.h"

namespace weir::policy {

enum class CalendarUnit { day, week, month, year };

// Days, weeks (from Monday), months and years in an IANA time zone, across daylight saving: a day
// has 23, 24 or 25 hours and starts at the first instant of its date. Immutable and thread-safe.
//
// The zones come from the system's tz database through cctz, since libstdc++ 12 has no <chrono>
// time zones. cctz reads the compiled zone files, with the rules for years beyond their tables, and
// finds the first instant of a date also when midnight is skipped or repeated.
class ZoneCalendar : public core::Calendar {
 public:
  // `anchor` is the day of the month on which months and years (in January) begin; in a shorter
  // month it is the last day. An unknown zone is an error with a suggestion.
  static Result<std::shared_ptr<const ZoneCalendar>, std::string> make(CalendarUnit unit,
                                                                       const std::string& zone,
                                                                       int anchor);

  core::Span span_at(Instant t) const override;

  CalendarUnit unit() const { return unit_; }
  const std::string& zone() const { return zone_; }
  int anchor() const { return anchor_; }

  ~ZoneCalendar() override;

 private:
  struct Zone;
  ZoneCalendar(CalendarUnit unit, std::string zone, int anchor, std::unique_ptr<Zone> tz);
  core::Span look_up(Instant t) const;

  std::uint64_t id_;  // unique in the process, never reused
  CalendarUnit unit_;
  std::string zone_;
  int anchor_;
  std::unique_ptr<Zone> tz_;
};

}  // namespace weir::policy
