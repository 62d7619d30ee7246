#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/bucket.h"
#include "policy/orders.h"
#include "policy/policy_file.h"

namespace weir::engine {

// The highest price that each bucket of a group of keys is known to reach: under other hours of the
// schedule, or when orders end. A store that expires keys must keep debts until they have drained
// at that price.
class KnownPrices {
 public:
  // Adds keys that have `limits` whenever no order changes them.
  void add(std::string_view policy, const policy::GlobalOrders& orders,
           const std::vector<policy::Limit>& limits);
  // Adds keys without an override: their limits depend on the hour.
  void add(std::string_view policy, const policy::GlobalOrders& orders,
           const policy::Policy& written);

  // The factor by which a permit may take longer than now, rounded up. At least 1.
  std::int64_t highest_rise(std::uint64_t identity, const core::Bucket& now) const;

 private:
  // nanoseconds of one permit, by the limit's identity
  std::unordered_map<std::uint64_t, double> nanos_;
};

}  // namespace weir::engine
