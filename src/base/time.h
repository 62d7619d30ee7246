#pragma once

#include <algorithm>
#include <cstdint>

#include "weir/time.h"

namespace weir {

// The range of instants that limits accept: after 1970 and before 2116. The zero instant is
// excluded so that an all-zero state can mean "never seen". The upper end leaves headroom for
// adding two durations without overflow.
inline constexpr Instant kEarliest{Nanos{1}};
inline constexpr Instant kLatest{Nanos{std::int64_t{1} << 62}};

constexpr Instant in_range(Instant t) { return std::clamp(t, kEarliest, kLatest); }

constexpr std::int64_t ns(Instant t) { return t.time_since_epoch().count(); }
constexpr Instant instant(std::int64_t nanos) { return Instant{Nanos{nanos}}; }

}  // namespace weir
