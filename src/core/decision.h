#pragma once

#include <cstdint>

#include "base/time.h"

namespace weir::core {

enum class Outcome : std::uint8_t {
  allowed,
  limited,     // not now: retry_after says when
  impossible,  // never: the cost exceeds the capacity, do not retry
};

// What a caller asks for.
struct Ask {
  Permits cost = 1;
  Nanos max_wait{0};  // how long the caller would wait for its turn; kForever for any time
};

// retry_after of a call that can never pass.
inline constexpr Nanos kNever{-1};

// One answer carries every number a caller may want to know. Durations are rounded up to whole
// nanoseconds.
struct [[nodiscard]] Decision {
  Outcome outcome = Outcome::allowed;
  Permits limit = 0;      // capacity: what could be taken at one instant from rest
  Permits remaining = 0;  // what could be taken at once, now
  Nanos retry_after{0};   // until the same call alone would pass; 0 when it passed, or kNever
  Nanos reset_after{0};   // until at rest
  Nanos wait{0};          // how long an admitted caller has to wait for its turn

  explicit operator bool() const noexcept { return outcome == Outcome::allowed; }
  friend bool operator==(const Decision&, const Decision&) = default;
};

}  // namespace weir::core
