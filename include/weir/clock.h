#pragma once

#include <stop_token>

#include "weir/time.h"

namespace weir {
inline namespace v0 {

// Tells the time and waits for it. Limiters take the clock as an argument, so that a test can do
// without real time and waiting can be tested too.
// Thread-safe: every member, from any thread.
class Clock {
 public:
  virtual ~Clock() = default;

  // Never goes back.
  virtual Instant now() const noexcept = 0;

  // Waits until `then`; returns false at once when `stop` is requested before.
  virtual bool sleep_until(Instant then, std::stop_token stop) const = 0;
};

// Wall time at the start of the process, and from then on the time that has passed since, time
// asleep included: setting the system's clock back changes nothing, setting it forward is followed
// within a second.
const Clock& system_clock() noexcept;

}  // namespace v0
}  // namespace weir
