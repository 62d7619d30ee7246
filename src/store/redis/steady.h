#pragma once

#include <chrono>

#include "base/time.h"

namespace weir::store::redis {

// The time that never goes back.
inline Nanos steady_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

}  // namespace weir::store::redis
