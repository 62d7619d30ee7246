#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace weir {

// Time is whole nanoseconds, everywhere. Instants count from the Unix epoch.
using Nanos = std::chrono::nanoseconds;
using Instant = std::chrono::sys_time<Nanos>;

// How much of something a limit grants: calls, tokens, bytes.
using Permits = std::int64_t;

// The instants a limit can be asked about: after 1970 and before 2116. The zero instant is left
// free, so that an all-zero state can mean "never seen"; the upper end leaves headroom for adding
// two durations without overflow.
inline constexpr Instant kEarliest{Nanos{1}};
inline constexpr Instant kLatest{Nanos{std::int64_t{1} << 62}};

// A wait without end.
inline constexpr Nanos kForever = Nanos::max();

constexpr Instant in_range(Instant t) { return std::clamp(t, kEarliest, kLatest); }

constexpr std::int64_t ns(Instant t) { return t.time_since_epoch().count(); }
constexpr Instant instant(std::int64_t nanos) { return Instant{Nanos{nanos}}; }

}  // namespace weir
