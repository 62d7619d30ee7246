#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace weir {

// Wall time that never goes back: a monotonic clock plus an offset to the wall clock. The offset
// grows when the wall clock is set forward, and never shrinks.
//
// Thread-safe. `Source` reads the two clocks in nanoseconds: `monotonic()`, `wall()`.
template <typename Source>
class WallTime {
 public:
  explicit WallTime(Source source = {}) noexcept : source_(source) {
    read_wall_clock(source_.monotonic());
  }

  Instant now() const noexcept {
    const std::int64_t monotonic = source_.monotonic();
    if (monotonic >= next_read_.load(std::memory_order_relaxed)) [[unlikely]] {
      read_wall_clock(monotonic);
    }
    return instant(monotonic + offset_.load(std::memory_order_relaxed));
  }

  // The wall clock is read once per interval: reading it every time would double the cost.
  static constexpr Nanos kWallReadInterval = std::chrono::seconds{1};

 private:
  // Reads the wall clock first. A delay between the two reads then makes the offset too small,
  // which the next read corrects, and never too large.
  void read_wall_clock(std::int64_t monotonic) const noexcept {
    next_read_.store(monotonic + kWallReadInterval.count(), std::memory_order_relaxed);
    const std::int64_t wall = source_.wall();
    const std::int64_t offset = wall - source_.monotonic();
    std::int64_t known = offset_.load(std::memory_order_relaxed);
    while (known < offset && !offset_.compare_exchange_weak(known, offset)) {
    }
  }

  Source source_;
  mutable std::atomic<std::int64_t> offset_{0};
  mutable std::atomic<std::int64_t> next_read_{0};
};

}  // namespace weir
