#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/price_history.h"
#include "engine/key_groups.h"
#include "store/memory/slower_limits.h"

// The prices that the buckets of a policy have had, for every key: what is needed to carry a state
// over from any of them to the present (core/price_history.h).

namespace weir::engine {

// The price of the buckets of one limit.
struct LimitPrice {
  std::uint64_t identity = 0;  // of the limit
  core::Pace pace{};
  Permits capacity = 0;
  std::uint64_t stamp = 0;  // of states that were written at this price
  bool still = false;       // the node has nothing of the limit: what was used stays used

  static LimitPrice of(std::uint64_t identity, const core::Bucket& bucket);
};
using LimitPrices = std::vector<LimitPrice>;  // of the limits that are buckets
using PriceGroups = KeyGroups<LimitPrices>;
using PriceLayer = KeyLayer<LimitPrices>;

const LimitPrice* find_price(const LimitPrices& prices, std::uint64_t identity);

// True if every key has the same prices under both.
bool same_prices(const PriceGroups& a, const PriceGroups& b);

// The most that any bucket holds, and the longest that a permit of any takes.
struct Extent {
  Permits capacity = 0;
  Nanos price{0};

  static Extent of(const PriceGroups& groups);
  void add(const Extent& other);
  // For how long something may be owed. Debits may exceed what a bucket holds: 16 times as much is
  // reckoned with.
  Nanos longest_debt() const;
};

// A time in which the prices of a policy were the same. It ends when the next one begins.
struct PolicyEpoch {
  core::EpochNumber number = 0;
  Instant since{};
  PriceGroups prices{};
  Extent extent{};
};

// Oldest first; the last one is the present epoch. Never empty.
using PolicyEpochs = std::vector<std::shared_ptr<const PolicyEpoch>>;

// The epochs of `old` (none at the start) from which something may be owed, and `next`.
PolicyEpochs followed_by(const PolicyEpochs* old, PolicyEpoch next);

// Adds the prices that have risen with the last epoch to `slower`.
void note_rises(const PolicyEpochs& epochs, store::SlowerLimits& slower);

}  // namespace weir::engine
