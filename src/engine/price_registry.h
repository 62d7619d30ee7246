#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "core/price_history.h"

namespace weir::engine {

// Maps the stamps in bucket states to exact prices, for all buckets in an engine's recent rules.
// Calls that still use replaced rules need them. Thread-safe.
class PriceRegistry final : public core::PriceHistory {
 public:
  void add(const core::Bucket& bucket);

  // The registry has no epochs.
  std::size_t size() const override { return 0; }
  std::optional<core::PriceEpoch> epoch(std::size_t) const override { return std::nullopt; }
  std::optional<core::EmissionInterval> pace_of(std::uint64_t stamp) const override;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, core::EmissionInterval> paces_;
  std::deque<std::uint64_t> order_;  // oldest first
};

}  // namespace weir::engine
