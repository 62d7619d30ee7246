#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace weir {

// Wall time that never goes back: what a wall clock showed at first, and from then on the time that
// a steady clock has counted. Where the wall clock moves ahead of that we go along; where it falls
// behind we do not.
//
// Thread-safe. `Source` reads the two clocks in nanoseconds: `steady()`, `wall()`.
template <typename Source>
class WallTime {
 public:
  explicit WallTime(Source source = {}) noexcept : source_(source) { look(source_.steady()); }

  Instant now() const noexcept {
    const std::int64_t steady = source_.steady();
    if (steady >= next_look_.load(std::memory_order_relaxed)) [[unlikely]] {
      look(steady);
    }
    return instant(steady + ahead_.load(std::memory_order_relaxed));
  }

  // The wall clock is looked at this often: every time would cost twice as much.
  static constexpr Nanos kLookEvery = std::chrono::seconds{1};

 private:
  // The wall clock is read first: whatever comes between the two readings makes it seem to be less
  // ahead than it is, which the next look mends, and never more.
  void look(std::int64_t steady) const noexcept {
    next_look_.store(steady + kLookEvery.count(), std::memory_order_relaxed);
    const std::int64_t wall = source_.wall();
    const std::int64_t ahead = wall - source_.steady();
    std::int64_t known = ahead_.load(std::memory_order_relaxed);
    while (known < ahead && !ahead_.compare_exchange_weak(known, ahead)) {
    }
  }

  Source source_;
  mutable std::atomic<std::int64_t> ahead_{0};
  mutable std::atomic<std::int64_t> next_look_{0};
};

}  // namespace weir
