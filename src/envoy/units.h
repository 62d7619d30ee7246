#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>

#include "envoy/messages.h"
#include "weir/time.h"

namespace weir::envoy {

struct NamedUnit {
  std::string_view name;      // in files
  std::string_view capitals;  // on the wire
  Unit unit;
  Nanos length;
};

// Months and years have the lengths of envoyproxy/ratelimit.
inline constexpr std::array<NamedUnit, 7> kUnits{{
    {"second", "SECOND", Unit::second, std::chrono::seconds{1}},
    {"minute", "MINUTE", Unit::minute, std::chrono::minutes{1}},
    {"hour", "HOUR", Unit::hour, std::chrono::hours{1}},
    {"day", "DAY", Unit::day, std::chrono::hours{24}},
    {"week", "WEEK", Unit::week, std::chrono::hours{24 * 7}},
    {"month", "MONTH", Unit::month, std::chrono::hours{24 * 30}},
    {"year", "YEAR", Unit::year, std::chrono::hours{24 * 365}},
}};

// Null for Unit::unknown.
constexpr const NamedUnit* find(Unit unit) {
  const auto* found = std::ranges::find(kUnits, unit, &NamedUnit::unit);
  return found == kUnits.end() ? nullptr : found;
}

}  // namespace weir::envoy
