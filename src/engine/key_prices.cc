#include "engine/key_prices.h"

namespace weir::engine {

std::optional<core::PriceEpoch> KeyPrices::epoch(std::size_t i) const {
  const PolicyEpoch& epoch = *(*policy_.epochs)[i];
  const LimitPrice* const price = find_price(epoch.prices.limits_for(subject_), identity_);
  if (price == nullptr) return std::nullopt;
  return core::PriceEpoch{
      .number = epoch.number, .since = epoch.since, .pace = price->pace, .still = price->still};
}

}  // namespace weir::engine
