#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/bucket.h"
#include "policy/orders.h"
#include "policy/policy_file.h"

namespace weir::engine {

// The highest price that each bucket of a group of keys is known to get: from other hours of the
// schedule, or when orders end. A store that expires keys has to keep debts until they have drained
// at that price.
class KnownPrices {
 public:
  // For keys that have `limits` whenever no order changes them.
  void add(std::string_view policy, const policy::ForAll& orders,
           const std::vector<policy::Limit>& limits);
  // For keys without an override: their limits depend on the hour.
  void add(std::string_view policy, const policy::ForAll& orders, const policy::Policy& written);

  // How many times as long as now a permit may take, rounded up. At least 1.
  std::int64_t highest_rise(std::uint64_t identity, const core::Bucket& now) const;

 private:
  std::unordered_map<std::uint64_t, double> nanos_;  // in a permit, by the limit's identity
};

}  // namespace weir::engine
