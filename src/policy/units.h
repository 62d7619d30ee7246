#pragma once

#include <optional>
#include <string>

#include "core/rate.h"
#include "policy/calendar.h"
#include "policy/limit_text.h"

// The terminals of the limit language: numbers, sizes, durations, calendar units.

namespace weir::policy {

// A non-negative number with an optional size unit (100, 0.5, 10MB, 1MiB), as a rate without its
// period.
Result<core::Rate, Problem> parse_amount(const Word& word);

// The same for a whole number of permits; `what` names it in messages.
Result<Permits, Problem> parse_count(const Word& word, std::string_view what);

// The calendar unit with that name.
std::optional<CalendarUnit> calendar_unit(std::string_view text);
std::string_view unit_name(CalendarUnit unit);

// The unit for a common misspelling ("sec", "hours", "d"); empty if unknown.
std::string_view unit_meant_by(std::string_view written);

// "s", "min", "h", or a duration: 5s, 90s, 1.5h.
Result<Nanos, Problem> parse_period(const Word& word);

// In the words of the limit language: 90s, 1min, 250ms, 1.5s.
std::string to_text(Nanos duration);

}  // namespace weir::policy
