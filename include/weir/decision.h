#pragma once

#include <cstdint>

#include "weir/time.h"

namespace weir {
inline namespace v0 {

enum class Outcome : std::uint8_t {
  allowed,     // proceed, after `wait`
  limited,     // refused for now: retry after `retry_after`
  impossible,  // refused for good: the cost exceeds the capacity, do not retry
};

// retry_after of a call that can never be admitted.
inline constexpr Nanos kNever{-1};

// The decision of a limit about a call, with every number that a caller may need. A plain value.
// Durations are rounded up to whole nanoseconds.
struct [[nodiscard]] Decision {
  Outcome outcome = Outcome::allowed;
  Permits limit = 0;      // capacity: the most that can be taken at one instant from rest
  Permits remaining = 0;  // the most that can be taken now
  Nanos retry_after{0};   // until the same call would be admitted; 0 if it was, or kNever
  Nanos reset_after{0};   // until at rest: as if nothing had ever been taken
  Nanos wait{0};          // how long an admitted caller has to wait for its turn

  // True only when allowed.
  explicit operator bool() const noexcept { return outcome == Outcome::allowed; }
  friend bool operator==(const Decision&, const Decision&) = default;
};

}  // namespace v0
}  // namespace weir
