#pragma once

#include <cstdint>

#include "weir/time.h"

namespace weir {
inline namespace v0 {

// What a limit says to a call.
enum class Outcome : std::uint8_t {
  allowed,     // go ahead, after `wait`
  limited,     // not now: retry_after says when
  impossible,  // never: the cost exceeds the capacity, do not retry
};

// retry_after of a call that can never pass.
inline constexpr Nanos kNever{-1};

// One answer carries every number a caller may want to know. A plain value.
// Durations are rounded up to whole nanoseconds.
struct [[nodiscard]] Decision {
  Outcome outcome = Outcome::allowed;
  Permits limit = 0;      // capacity: what could be taken at one instant from rest
  Permits remaining = 0;  // what could be taken at once, now
  Nanos retry_after{0};   // until the same call alone would pass; 0 when it passed, or kNever
  Nanos reset_after{0};   // until at rest: as if nothing had ever been taken
  Nanos wait{0};          // how long an admitted caller has to wait for its turn

  // True only when allowed.
  explicit operator bool() const noexcept { return outcome == Outcome::allowed; }
  friend bool operator==(const Decision&, const Decision&) = default;
};

}  // namespace v0
}  // namespace weir
