#include "weir/clock.h"

#include <time.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/saturating.h"
#include "limiter/wall_time.h"

namespace weir {
inline namespace v0 {

namespace {

std::int64_t read(clockid_t id) noexcept {
  timespec t{};
  clock_gettime(id, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

struct KernelClocks {
  // CLOCK_BOOTTIME counts on while the machine is suspended: limits must refill then, too.
  static std::int64_t monotonic() noexcept { return read(CLOCK_BOOTTIME); }
  static std::int64_t wall() noexcept { return read(CLOCK_REALTIME); }
};

class SystemClock final : public Clock {
 public:
  Instant now() const noexcept override { return time_.now(); }
  Nanos monotonic() const noexcept override { return Nanos{KernelClocks::monotonic()}; }

  bool sleep_until(Instant then, std::stop_token stop) const override {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any wake;
    for (;;) {
      const Nanos left = until(now(), then);
      if (left == Nanos{0}) return true;
      if (stop.stop_requested()) return false;
      // Sleep in steps: the condition variable counts neither wall clock jumps nor time in suspend,
      // and both bring `then` nearer.
      wake.wait_for(lock, stop, std::min(left, WallTime<KernelClocks>::kWallReadInterval),
                    [] { return false; });
    }
  }

 private:
  WallTime<KernelClocks> time_;
};

}  // namespace

const Clock& system_clock() noexcept {
  // Never destroyed: limiters with static storage may use it until the process ends.
  static const Clock& clock = *new SystemClock;
  return clock;
}

}  // namespace v0
}  // namespace weir
