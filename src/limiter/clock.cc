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

struct Kernel {
  // Counts on while the machine is suspended: a limit refills then, too.
  static std::int64_t steady() noexcept { return read(CLOCK_BOOTTIME); }
  static std::int64_t wall() noexcept { return read(CLOCK_REALTIME); }
};

class SystemClock final : public Clock {
 public:
  Instant now() const noexcept override { return time_.now(); }
  Nanos passed() const noexcept override { return Nanos{Kernel::steady()}; }

  bool sleep_until(Instant then, std::stop_token stop) const override {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any wake;
    for (;;) {
      const Nanos left = until(now(), then);
      if (left == Nanos{0}) return true;
      if (stop.stop_requested()) return false;
      // In steps, since `then` comes nearer when the wall clock is set forward, and while the
      // machine is suspended, which a condition variable does not count.
      wake.wait_for(lock, stop, std::min(left, WallTime<Kernel>::kLookEvery), [] { return false; });
    }
  }

 private:
  WallTime<Kernel> time_;
};

}  // namespace

const Clock& system_clock() noexcept {
  // Never destroyed: a limiter with static storage may be asked until the very end.
  static const Clock& clock = *new SystemClock;
  return clock;
}

}  // namespace v0
}  // namespace weir
