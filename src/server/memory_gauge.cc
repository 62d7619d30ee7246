#include "server/memory_gauge.h"

#include <algorithm>

namespace weir::server {

void MemoryGauge::refresh(const Engine& engine) {
  constexpr Clock::duration min_interval = std::chrono::seconds{2};
  constexpr Clock::duration max_interval = std::chrono::seconds{15};
  const auto began = Clock::now();
  if (began < next_) return;
  const MemoryUse use = engine.memory();
  const auto ended = Clock::now();
  next_ = ended + std::clamp<Clock::duration>(500 * (ended - began), min_interval, max_interval);
  const std::lock_guard lock(mutex_);
  last_ = use;
}

MemoryUse MemoryGauge::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

}  // namespace weir::server
