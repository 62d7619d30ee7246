#pragma once

#include <chrono>
#include <cstdint>

namespace weir {
inline namespace v0 {

// Time is whole nanoseconds, everywhere. Instants count from the Unix epoch.
using Nanos = std::chrono::nanoseconds;
using Instant = std::chrono::sys_time<Nanos>;

// How much of something a limit grants: calls, tokens, bytes.
using Permits = std::int64_t;

// A wait without end.
inline constexpr Nanos kForever = Nanos::max();

}  // namespace v0
}  // namespace weir
