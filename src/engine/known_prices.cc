#include "engine/known_prices.h"

#include <algorithm>
#include <cmath>

#include "policy/identity.h"
#include "store/memory/fingerprint.h"

namespace weir::engine {

namespace {

double nanos_of(const core::Bucket& bucket) {
  return static_cast<double>(bucket.interval.price) / static_cast<double>(bucket.interval.parts);
}

// The orders that lower limits. Orders end at different times, and limits are lowest while only
// these are left.
policy::GlobalOrders lowering(policy::GlobalOrders orders) {
  std::erase_if(orders.changes, [](const policy::Change& change) {
    return change.millionths >= policy::Change::kOne || change.more > 0;
  });
  return orders;
}

}  // namespace

void KnownPrices::add(std::string_view policy, const policy::GlobalOrders& orders,
                      const std::vector<policy::Limit>& limits) {
  const std::vector<policy::Limit> lowest = policy::under(lowering(orders), limits);
  const auto identities = policy::identities_of(policy, lowest);
  for (std::size_t i = 0; i < lowest.size(); ++i) {
    const auto* const bucket = std::get_if<core::Bucket>(&lowest[i].limit);
    if (bucket == nullptr) continue;
    double& nanos = nanos_[store::hash_of(identities[i]).low];
    nanos = std::max(nanos, nanos_of(*bucket));
  }
}

void KnownPrices::add(std::string_view policy, const policy::GlobalOrders& orders,
                      const policy::Policy& written) {
  add(policy, orders, written.limits);
  for (const auto& shift : written.schedule) add(policy, orders, shift.limits);
}

std::int64_t KnownPrices::highest_rise(std::uint64_t identity, const core::Bucket& now) const {
  constexpr double max_rise = 1e9;
  constexpr double rounding = 1e-9;
  const auto found = nanos_.find(identity);
  if (found == nanos_.end()) return 1;
  const double rise = found->second / nanos_of(now);
  return static_cast<std::int64_t>(std::clamp(std::ceil(rise - rounding), 1.0, max_rise));
}

}  // namespace weir::engine
