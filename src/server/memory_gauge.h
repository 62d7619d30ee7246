#pragma once

#include <chrono>
#include <mutex>

#include "weir/engine.h"

namespace weir::server {

// How full the memory is. Finding out means to look at all of it, so a thread that serves nobody
// does it now and then.
// Thread-safe.
class MemoryGauge {
 public:
  // Looks, unless that was done lately. It drives what others need out of the caches: a table that
  // takes longer to look at is looked at less often.
  void look(const Engine& engine);

  // As it was when last looked at.
  MemoryUse last() const;

 private:
  using Clock = std::chrono::steady_clock;

  mutable std::mutex mutex_;
  MemoryUse last_{};
  Clock::time_point next_{};
};

}  // namespace weir::server
