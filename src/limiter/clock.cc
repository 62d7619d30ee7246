#include "weir/clock.h"

#include <time.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "base/time.h"

namespace weir {
inline namespace v0 {

namespace {

std::int64_t read(clockid_t id) noexcept {
  timespec t{};
  clock_gettime(id, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

class SystemClock final : public Clock {
 public:
  SystemClock() noexcept { follow_wall(read(CLOCK_BOOTTIME)); }

  Instant now() const noexcept override {
    const std::int64_t boot = read(CLOCK_BOOTTIME);
    if (boot >= next_look_.load(std::memory_order_relaxed)) [[unlikely]] {
      follow_wall(boot);
    }
    return instant(boot + offset_.load(std::memory_order_relaxed));
  }

  bool sleep_until(Instant then, std::stop_token stop) const override {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any wake;
    for (;;) {
      const Nanos left = then - now();
      if (left <= Nanos{0}) return true;
      // In steps, since the time to wait for may come nearer when the wall clock is set forward.
      wake.wait_for(lock, stop, std::min(left, kStep), [] { return false; });
      if (stop.stop_requested()) return false;
    }
  }

 private:
  static constexpr Nanos kStep = std::chrono::seconds{1};

  // Where wall time has moved ahead of ours we go along. (Reading both clocks every time would
  // cost twice as much.)
  void follow_wall(std::int64_t boot) const noexcept {
    next_look_.store(boot + kStep.count(), std::memory_order_relaxed);
    const std::int64_t ahead = read(CLOCK_REALTIME) - read(CLOCK_BOOTTIME);
    std::int64_t offset = offset_.load(std::memory_order_relaxed);
    while (offset < ahead && !offset_.compare_exchange_weak(offset, ahead)) {
    }
  }

  mutable std::atomic<std::int64_t> offset_{0};
  mutable std::atomic<std::int64_t> next_look_{0};
};

}  // namespace

const Clock& system_clock() noexcept {
  static const SystemClock clock;
  return clock;
}

}  // namespace v0
}  // namespace weir
