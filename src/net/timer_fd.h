#pragma once

#include "base/time.h"
#include "net/file_descriptor.h"
#include "net/poller.h"

namespace weir::net {

// A timer of Linux (timerfd_create(2)) that wakes a poller. Not thread-safe.
class TimerFd final : private EventHandler {
 public:
  explicit TimerFd(Poller& poller);
  TimerFd(const TimerFd&) = delete;
  TimerFd& operator=(const TimerFd&) = delete;

  // Wakes the poller at `time` of std::chrono::steady_clock at the latest. It may wake earlier: an
  // earlier setting stays, because each setting costs a system call. Deadlines pass in the order in
  // which they were set, so a new setting is needed once in a timeout, not for each deadline.
  void wake_at(Nanos time);

 private:
  void on_ready() override;
  void on_out_of_memory() noexcept override {}

  FileDescriptor timer_;
  Nanos set_to_ = kForever;
};

}  // namespace weir::net
