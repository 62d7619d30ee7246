#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace weir {

// Parses RFC 3339, from 1970 to 2115: 2026-03-29T01:30:00.5+01:00.
std::optional<Instant> parse_date(std::string_view text);

// RFC 3339 in UTC, with as many decimals as needed: 2026-03-29T00:30:00.5Z.
std::string to_date(Instant time);

}  // namespace weir
