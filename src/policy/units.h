#pragma once

#include <optional>
#include <string>

#include "core/rate.h"
#include "policy/calendar.h"
#include "policy/limit_text.h"

// The small words of the limit language: numbers, sizes, durations, calendar units.

namespace weir::policy {

// A number above or equal to zero with an optional size: 100, 0.5, 10MB, 1MiB. As a rate without
// its period.
Result<core::Rate, Problem> parse_amount(const Word& word);

// The same, where only whole permits make sense.
Result<Permits, Problem> parse_count(const Word& word, std::string_view what);

// The calendar unit `text` names, if it does.
std::optional<CalendarUnit> calendar_unit(std::string_view text);
std::string_view unit_name(CalendarUnit unit);

// The unit that somebody meant who wrote "sec", "hours" or "d"; empty if that is not known.
std::string_view unit_meant_by(std::string_view written);

// "s", "min", "h", or a duration: 5s, 90s, 1.5h.
Result<Nanos, Problem> parse_period(const Word& word);

// As the language writes it: 90s, 1min, 250ms, 1.5s.
std::string to_text(Nanos duration);

}  // namespace weir::policy
