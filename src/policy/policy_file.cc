#include "policy/policy_file.h"

#include "policy/config.h"

namespace weir::policy {

const std::vector<Limit>& default_limits(const Policy& policy, Instant t) {
  if (policy.schedule.empty()) return policy.limits;
  const auto shift = active_shift_at(policy.schedule, t).shift;
  return shift ? policy.schedule[*shift].limits : policy.limits;
}

Schedules schedules_of(const PolicySet& policies) {
  Schedules schedules;
  for (const auto& [name, policy] : policies) {
    if (!policy.schedule.empty()) schedules.push_back(&policy.schedule);
  }
  return schedules;
}

Ends end_times_of(const PolicySet& policies) {
  Ends ends;
  for (const auto& [name, policy] : policies) {
    for (const Order& order : policy.orders) ends.push_back(order.until);
  }
  return ends;
}

PolicySet read_policies(const Source& source, Problems& problems) {
  return read_file(source, problems).config.policies;
}

}  // namespace weir::policy
