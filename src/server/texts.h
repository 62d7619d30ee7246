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

// How answers say things, at every door.

// Milliseconds, rounded up; -1 if it will never be.
inline std::int64_t millis_or_never(Nanos time) {
  return time == kNever ? -1 : wire::millis_up(time);
}

// A whole number as strangers write them: no sign but a minus, no spaces.
std::optional<std::int64_t> whole_number(std::string_view text);

// As much of it as somebody wants to know, rounded up: 250ms, 4.2s, 1min 34s, 3h 20min, 12 days 4h.
std::string readable(Nanos time);

std::string no_such_policy(std::string_view name, std::span<const std::string_view> known);

// In quotes, with nothing in it that ends a line or a text.
std::string in_quotes(std::string_view text);

// The key or the parts of a request, likewise.
std::string subject_of(const Request& request);

// A line about a limit for people: its name, its text, its state, and when the call would pass.
std::string explained(const LimitState& limit);

// A limit of a policy as it is written, in a line: hourly: 10/h by user, shadow.
std::string described(const policy::Limit& limit);
std::string described(const std::vector<policy::Limit>& limits);

}  // namespace weir::server
