#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "policy/limit.h"
#include "policy/orders.h"
#include "policy/overrides.h"
#include "policy/schedule.h"
#include "policy/source.h"
#include "weir/memory.h"

namespace weir::policy {

// The answer of a policy while the store is unavailable.
enum class OnStoreFailure : std::uint8_t {
  open,    // allowed
  closed,  // refused
  local,   // as this node's own table decides (the default)
  error,   // an error, for the caller to handle (Envoy's rules only, and their default)
};

struct Policy {
  std::vector<Limit> limits;  // the default limits: without overrides and shifts
  WhenFull when_full = WhenFull::share;
  OnStoreFailure on_store_failure = OnStoreFailure::local;
  std::vector<Override> overrides{};  // take precedence over the schedule
  Schedule schedule{};
  std::vector<Order> orders{};  // by operators; never from the file
};

// In bytes. Names are not empty.
inline constexpr std::size_t kMaxPolicyNameLength = 256;

using PolicySet = std::map<std::string, Policy, std::less<>>;

// The limits of keys without an override at time `t`.
const std::vector<Limit>& default_limits(const Policy& policy, Instant t);

// The schedules of all policies that have one.
Schedules schedules_of(const PolicySet& policies);
// The end times of the orders of all policies.
Ends end_times_of(const PolicySet& policies);

// Reads only the policies of a file (policy/config.h reads the whole file). Settings that this
// version does not support are no problem. All problems are added to the list; a file with problems
// must not be used.
PolicySet read_policies(const Source& source, Problems& problems);

}  // namespace weir::policy
