#pragma once

#include <algorithm>
#include <chrono>

#include "base/saturating.h"
#include "weir/clock.h"

namespace weir::engine {

// The time an engine decides by: its clock's, but never before the time its state file was left at.
// A clock that is a little behind that is waited for. One that is far behind cannot be: time goes
// on from there by itself, until the clock has been put right and has caught up.
class EngineTime {
 public:
  EngineTime(const Clock& clock, Instant earliest)
      : clock_(clock), earliest_(earliest), since_(clock.passed()) {
    constexpr std::chrono::minutes a_little{1};
    const Nanos behind = until(clock.now(), earliest);
    if (behind > a_little) lead_ = behind;
  }

  Instant now() const noexcept {
    if (lead_ == Nanos{0}) [[likely]]
      return std::max(clock_.now(), earliest_);
    return std::max(clock_.now(), later(earliest_, clock_.passed() - since_));
  }

  // Time that passes, whatever the clock is set to.
  Nanos passed() const noexcept { return clock_.passed(); }

  // How far the clock was behind, if that was too far to wait for.
  Nanos lead() const { return lead_; }

 private:
  const Clock& clock_;
  Instant earliest_;
  Nanos since_;
  Nanos lead_{0};
};

}  // namespace weir::engine
