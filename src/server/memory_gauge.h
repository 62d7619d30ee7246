#pragma once

#include <chrono>
#include <mutex>

#include "weir/engine.h"

namespace weir::server {

// The memory use of the engine's table. Measuring it scans the whole table, so a thread that serves
// no connections does it periodically.
// Thread-safe.
class MemoryGauge {
 public:
  // Measures, unless that was done a short time ago: at most every 2 to 15 seconds. The scan evicts
  // the CPU caches, so a table that takes longer to scan is measured less often.
  void refresh(const Engine& engine);

  // The last measurement.
  MemoryUse last() const;

 private:
  using Clock = std::chrono::steady_clock;

  mutable std::mutex mutex_;
  MemoryUse last_{};
  Clock::time_point next_{};
};

}  // namespace weir::server
