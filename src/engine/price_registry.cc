#include "engine/price_registry.h"

namespace weir::engine {

void PriceRegistry::add(const core::Bucket& bucket) {
  constexpr std::size_t max_stamps = std::size_t{1} << 16;
  const std::lock_guard lock(mutex_);
  if (!paces_.emplace(bucket.stamp, bucket.interval).second) return;
  order_.push_back(bucket.stamp);
  if (order_.size() <= max_stamps) return;
  paces_.erase(order_.front());
  order_.pop_front();
}

std::optional<core::EmissionInterval> PriceRegistry::pace_of(std::uint64_t stamp) const {
  const std::lock_guard lock(mutex_);
  const auto found = paces_.find(stamp);
  if (found == paces_.end()) return std::nullopt;
  return found->second;
}

}  // namespace weir::engine
