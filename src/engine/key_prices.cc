#include "engine/key_prices.h"

#include <algorithm>

namespace weir::engine {

std::optional<core::PriceEpoch> KeyPrices::epoch(std::size_t i) const {
  const PolicyEpoch& epoch = *(*policy_.epochs)[i];
  const LimitPrice* const price = find_price(epoch.prices.limits_for(subject_), identity_);
  if (price == nullptr) return std::nullopt;
  return core::PriceEpoch{.number = epoch.number,
                          .since = epoch.since,
                          .interval = price->interval,
                          .frozen = price->frozen};
}

std::optional<core::PriceEpoch> SharePrices::epoch(std::size_t i) const {
  std::optional<core::PriceEpoch> epoch = whole_.epoch(i);
  constexpr Int128 highest = Int128{1} << 124;
  if (epoch) epoch->interval.price = std::min(epoch->interval.price, highest / nodes_) * nodes_;
  return epoch;
}

}  // namespace weir::engine
