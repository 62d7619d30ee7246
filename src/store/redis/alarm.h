#pragma once

#include "base/time.h"
#include "net/descriptor.h"
#include "net/poller.h"

namespace weir::store::redis {

// Makes a poller wake up in time.
class Alarm final : private net::Watcher {
 public:
  explicit Alarm(net::Poller& poller);
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  // Wakes at that time at the latest, by std::chrono::steady_clock. Waking too early does no harm,
  // but each setting costs a call of the system: one that would only wake earlier stays. Deadlines
  // pass in the order in which they were set, so this happens once in a timeout, not with each.
  void wake_at(Nanos time);

 private:
  void on_ready() override;
  void on_out_of_memory() noexcept override {}

  net::Descriptor timer_;
  Nanos set_to_ = kForever;
};

}  // namespace weir::store::redis
