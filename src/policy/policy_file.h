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

// What to answer while the store cannot be asked.
enum class OnStoreFailure : std::uint8_t {
  open,    // allowed
  closed,  // refused
  local,   // what this node's own memory says (the default)
  error,   // nothing: who asks decides what happens then (of Envoy's rules only, their default)
};

struct Policy {
  std::vector<Limit> limits;  // where no override and no shift says otherwise
  WhenFull when_full = WhenFull::share;
  OnStoreFailure on_store_failure = OnStoreFailure::local;
  std::vector<Override> overrides{};  // beat the schedule
  Schedule schedule{};
  std::vector<Order> orders{};  // of operators; not of the file
};

// In bytes; names have at least one.
inline constexpr std::size_t kLongestPolicyName = 256;

using PolicySet = std::map<std::string, Policy, std::less<>>;

// The limits of those that have no override, at a time.
const std::vector<Limit>& usual_limits(const Policy& policy, Instant t);

// The schedules of the policies that have one.
Schedules schedules_of(const PolicySet& policies);
// When their orders end.
Ends ends_of(const PolicySet& policies);

// The policies of a file, for those who want nothing else of it: what this version cannot do is
// no problem. Problems are added to the list, all of them at once; a file with problems must not
// be used. (All of a file: policy/config.h.)
PolicySet read_policies(const Source& source, Problems& problems);

}  // namespace weir::policy
