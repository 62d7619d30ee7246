#include "server/rate_policies.h"

#include <map>
#include <string>
#include <vector>

#include "policy/grants.h"

namespace weir::server {

namespace {

std::string told_of(const policy::Policy& policy) {
  const std::vector<policy::Grant> grants = policy::grants_of(policy);
  std::vector<wire::QuotaPolicy> limits;
  for (const policy::Grant& grant : grants) {
    limits.push_back({.name = grant.name, .quota = grant.capacity, .window = grant.window});
  }
  std::string field;
  wire::append_policy_field(field, limits);
  return field;
}

// The fields of policies that are the same for everybody.
using Fields = std::map<std::string, std::string, std::less<>>;

Fields fields_of(const policy::PolicySet& policies) {
  Fields fields;
  for (const auto& [name, policy] : policies) {
    const bool same_for_all =
        policy.overrides.empty() && policy.schedule.empty() && policy.orders.empty();
    if (same_for_all) fields[name] = told_of(policy);
  }
  return fields;
}

}  // namespace

std::string_view policy_field(Service& service, std::string_view policy, const Verdict& verdict) {
  using Source = std::pair<std::uint64_t, std::uint64_t>;  // whose, and which generation
  thread_local Source source;
  thread_local Fields fields;
  thread_local std::string other;
  const Source now{service.policies.id(), service.engine.generation()};
  if (now != source) {
    fields = fields_of(service.policies.in_force());
    source = now;
  }
  const auto found = fields.find(policy);
  if (found != fields.end()) return found->second;
  other.clear();
  const wire::QuotaPolicy only{.name = verdict.limited_by, .quota = verdict.decision.limit};
  wire::append_policy_field(other, {&only, 1});
  return other;
}

}  // namespace weir::server
