#pragma once

#include <algorithm>
#include <chrono>

#include "base/saturating.h"
#include "weir/clock.h"

namespace weir::engine {

// The time of an engine: its clock's, but never before the time at which its state file was left.
// If the clock is a little behind that, time stands still until the clock catches up. If it is far
// behind, time goes on from the file's time at normal speed until the clock catches up.
class EngineTime {
 public:
  EngineTime(const Clock& clock, Instant earliest)
      : clock_(clock), earliest_(earliest), since_(clock.monotonic()) {
    constexpr std::chrono::minutes max_standstill{1};
    const Nanos behind = until(clock.now(), earliest);
    if (behind > max_standstill) lead_ = behind;
  }

  Instant now() const noexcept {
    if (lead_ == Nanos{0}) [[likely]]
      return std::max(clock_.now(), earliest_);
    return std::max(clock_.now(), later(earliest_, clock_.monotonic() - since_));
  }

  // Monotonic time.
  Nanos monotonic() const noexcept { return clock_.monotonic(); }

  // How far the clock was behind the time of the state file; 0 if that was at most a minute: then
  // time stands still until the clock catches up.
  Nanos lead() const { return lead_; }

 private:
  const Clock& clock_;
  Instant earliest_;
  Nanos since_;
  Nanos lead_{0};
};

}  // namespace weir::engine
