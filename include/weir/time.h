#pragma once

#include <chrono>
#include <cstdint>

namespace weir {
inline namespace v0 {

// All time is in whole nanoseconds. Instants count from the Unix epoch.
using Nanos = std::chrono::nanoseconds;
using Instant = std::chrono::sys_time<Nanos>;

// An amount that a limit grants: calls, tokens, bytes.
using Permits = std::int64_t;

// An unlimited wait.
inline constexpr Nanos kForever = Nanos::max();

}  // namespace v0
}  // namespace weir
