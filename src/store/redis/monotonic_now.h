#pragma once

#include <chrono>

#include "base/time.h"

namespace weir::store::redis {

// The time of std::chrono::steady_clock, since its epoch.
inline Nanos monotonic_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

}  // namespace weir::store::redis
