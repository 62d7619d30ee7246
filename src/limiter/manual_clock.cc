#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "base/saturating.h"
#include "weir/clock.h"

namespace weir {
inline namespace v0 {

struct ManualClock::Impl {
  // Constant after construction.
  const Sleepers mode;

  // Written under the mutex, read without.
  std::atomic<Instant> now;

  // Protected by the mutex.
  std::mutex mutex;
  std::vector<Instant> sleeping_until{};
  std::condition_variable_any moved{};
  std::condition_variable fell_asleep{};

  void move_to(Instant then) {
    now.store(then, std::memory_order_release);
    moved.notify_all();
  }

  bool sleep(std::unique_lock<std::mutex>& lock, Instant then, const std::stop_token& stop) {
    sleeping_until.push_back(then);
    fell_asleep.notify_all();
    const bool has_come = moved.wait(lock, stop, [&] { return now.load() >= then; });
    sleeping_until.erase(std::ranges::find(sleeping_until, then));
    return has_come;
  }

  std::size_t asleep() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(sleeping_until, [this](Instant then) { return then > now.load(); }));
  }
};

ManualClock::ManualClock(Instant start, Sleepers sleepers)
    : impl_(new Impl{.mode = sleepers, .now{start}, .mutex{}}) {}

ManualClock::~ManualClock() = default;

Instant ManualClock::now() const noexcept { return impl_->now.load(std::memory_order_acquire); }

bool ManualClock::sleep_until(Instant then, std::stop_token stop) const {
  std::unique_lock lock(impl_->mutex);
  if (now() >= then) return true;
  if (stop.stop_requested()) return false;
  if (impl_->mode == Sleepers::wait_for_others || then == Instant::max()) {
    return impl_->sleep(lock, then, stop);
  }
  impl_->move_to(then);
  return true;
}

void ManualClock::set(Instant now) {
  const std::lock_guard lock(impl_->mutex);
  impl_->move_to(now);
}

void ManualClock::advance(Nanos by) {
  const std::lock_guard lock(impl_->mutex);
  impl_->move_to(later(impl_->now.load(), by));
}

void ManualClock::await_sleepers(std::size_t count) const {
  std::unique_lock lock(impl_->mutex);
  impl_->fell_asleep.wait(lock, [&] { return impl_->asleep() >= count; });
}

}  // namespace v0
}  // namespace weir
