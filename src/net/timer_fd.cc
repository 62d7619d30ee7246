#include "net/timer_fd.h"

#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>

namespace weir::net {

TimerFd::TimerFd(Poller& poller)
    : timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (!timer_.is_open()) throw std::system_error(errno, std::generic_category(), "timerfd_create");
  poller.add(timer_.fd(), Interest::read, *this);
}

void TimerFd::wake_at(Nanos time) {
  if (time >= set_to_) return;
  set_to_ = time;
  // Zero would disarm the timer.
  const auto at = std::max(time, Nanos{1});
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at);
  itimerspec spec{};
  spec.it_value.tv_sec = seconds.count();
  spec.it_value.tv_nsec = (at - seconds).count();
  timerfd_settime(timer_.fd(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

void TimerFd::on_ready() {
  std::uint64_t expirations = 0;
  if (read(timer_.fd(), &expirations, sizeof expirations) > 0) set_to_ = kForever;
}

}  // namespace weir::net
