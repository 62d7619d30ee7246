#include "server/rate_policies.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "policy/grants.h"
#include "policy/limit_text.h"

namespace weir::server {

namespace {

std::string told_of(const policy::Policy& policy) {
  const std::vector<policy::Grant> grants = policy::grants_of(policy);
  std::vector<wire::QuotaPolicy> limits;
  for (const policy::Grant& grant : grants) {
    limits.push_back({.name = grant.name,
                      .quota = grant.capacity,
                      .window = grant.window,
                      .concurrent = grant.is_held});
  }
  std::string field;
  wire::append_policy_field(field, limits);
  return field;
}

struct Told {
  std::optional<std::string> field{};  // if it is the same for everybody
  // Else, the limits that are concurrent.
  std::set<std::string, std::less<>> held{};
};
using Fields = std::map<std::string, Told, std::less<>>;

Fields fields_of(const policy::PolicySet& policies) {
  Fields fields;
  for (const auto& [name, policy] : policies) {
    const bool same_for_all =
        policy.overrides.empty() && policy.schedule.empty() && policy.orders.empty();
    fields[name] =
        same_for_all ? Told{.field = told_of(policy)} : Told{.held = policy::names_of_held(policy)};
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
  const bool known = found != fields.end();
  if (known && found->second.field) return *found->second.field;
  other.clear();
  const wire::QuotaPolicy only{
      .name = verdict.limited_by,
      .quota = verdict.decision.limit,
      .concurrent = known && found->second.held.contains(verdict.limited_by)};
  wire::append_policy_field(other, {&only, 1});
  return other;
}

std::string_view policy_field(std::string_view limit) {
  // (Most come with the one that the last came with.)
  thread_local std::string known;
  thread_local std::string field;
  if (limit == known) return field;
  known = limit;
  const auto rule = policy::parse_limit(limit);
  field = rule ? told_of({.limits = {{.rule = *rule}}}) : std::string{};
  return field;
}

}  // namespace weir::server
