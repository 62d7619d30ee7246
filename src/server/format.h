#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/limit.h"
#include "weir/engine.h"
#include "wire/json_write.h"

namespace weir::server {

// Numbers and texts in the responses of all listeners.

// Milliseconds, rounded up; -1: never.
inline std::int64_t millis_or_never(Nanos time) {
  return time == kNever ? -1 : wire::millis_up(time);
}

// Parses a decimal integer, strictly: an optional minus and digits, nothing else.
std::optional<std::int64_t> whole_number(std::string_view text);

// For people, in at most two units, rounded up: 250ms, 4.2s, 1min 34s, 3h 20min, 12 days 4h.
std::string duration_text(Nanos time);

// An error that suggests one of the known names.
std::string no_such_policy(std::string_view name, std::span<const std::string_view> known);

// In double quotes, with line ends and quotes escaped.
std::string in_quotes(std::string_view text);

// The key or the parts of a request, in quotes.
std::string subject_of(const Request& request);

// A line for people about a limit of WEIR.EXPLAIN: name, limit, state, and what it would decide.
std::string limit_state_text(const LimitState& limit);

// A line for people about a limit of a policy: hourly: 10/h by user, shadow.
std::string limit_text(const policy::Limit& limit);
std::string limit_text(const std::vector<policy::Limit>& limits);

}  // namespace weir::server
