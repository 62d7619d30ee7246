#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/price_history.h"
#include "engine/key_groups.h"
#include "store/memory/slower_limits.h"

// The price history of the buckets of a policy, for every key. It converts a state from any epoch
// to the present (core/price_history.h).

namespace weir::engine {

// The price of the buckets of one limit.
struct LimitPrice {
  std::uint64_t identity = 0;  // of the limit
  core::EmissionInterval interval{};
  Permits capacity = 0;
  std::uint64_t stamp = 0;  // stamp of the states that were written at this price
  bool frozen = false;      // this node's share is 0: debts do not drain

  static LimitPrice of(std::uint64_t identity, const core::Bucket& bucket);
};
using LimitPrices = std::vector<LimitPrice>;  // of the buckets only
using PriceGroups = KeyGroups<LimitPrices>;
using PriceLayer = KeyLayer<LimitPrices>;

const LimitPrice* find_price(const LimitPrices& prices, std::uint64_t identity);

// True if every key has the same prices under both.
bool same_prices(const PriceGroups& a, const PriceGroups& b);

// The largest capacity of any bucket and the longest time of one permit: bounds for debts.
struct DebtBound {
  Permits capacity = 0;
  Nanos price{0};

  static DebtBound of(const PriceGroups& groups);
  void add(const DebtBound& other);
  // The longest time that a debt may last. Debits may exceed the capacity: 16 times the capacity is
  // assumed.
  Nanos longest_debt() const;
};

// A time in which the prices of a policy did not change. It ends when the next one begins.
struct PolicyEpoch {
  core::EpochNumber number = 0;
  Instant since{};
  PriceGroups prices{};
  DebtBound debt_bound{};
};

// Oldest first; the last one is the current epoch. Never empty.
using PolicyEpochs = std::vector<std::shared_ptr<const PolicyEpoch>>;

// Returns `next`, preceded by the epochs of `old` (null at the start) in which a debt may have
// begun that has not drained yet.
PolicyEpochs followed_by(const PolicyEpochs* old, PolicyEpoch next);

// Adds to `slower` the prices that rose with the last epoch.
void note_rises(const PolicyEpochs& epochs, store::SlowerLimits& slower);

}  // namespace weir::engine
