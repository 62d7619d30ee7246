#include "server/policy_field.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "policy/grants.h"
#include "policy/limit_text.h"

namespace weir::server {

namespace {

std::string field_of(const policy::Policy& policy) {
  const std::vector<policy::Grant> grants = policy::grants_of(policy);
  std::vector<wire::QuotaPolicy> limits;
  for (const policy::Grant& grant : grants) {
    limits.push_back({.name = grant.name,
                      .quota = grant.capacity,
                      .window = grant.window,
                      .concurrent = grant.is_concurrent});
  }
  std::string field;
  wire::append_policy_field(field, limits);
  return field;
}

struct CachedField {
  std::optional<std::string> field{};  // none: it depends on the key or the time
  // The names of the concurrency limits, if there is no `field`.
  std::set<std::string, std::less<>> concurrent{};
};
using FieldsByPolicy = std::map<std::string, CachedField, std::less<>>;

FieldsByPolicy fields_of(const policy::PolicySet& policies) {
  FieldsByPolicy fields;
  for (const auto& [name, policy] : policies) {
    const bool same_for_all =
        policy.overrides.empty() && policy.schedule.empty() && policy.orders.empty();
    fields[name] = same_for_all ? CachedField{.field = field_of(policy)}
                                : CachedField{.concurrent = policy::concurrent_limit_names(policy)};
  }
  return fields;
}

}  // namespace

std::string_view policy_field(ServerContext& context, std::string_view policy,
                              const Verdict& verdict) {
  using CacheKey = std::pair<std::uint64_t, std::uint64_t>;  // Policies::id, engine's generation
  thread_local CacheKey cached;
  thread_local FieldsByPolicy fields;
  thread_local std::string other;
  const CacheKey current{context.policies.id(), context.engine.generation()};
  if (current != cached) {
    fields = fields_of(context.policies.in_force());
    cached = current;
  }
  const auto found = fields.find(policy);
  const bool known = found != fields.end();
  if (known && found->second.field) return *found->second.field;
  other.clear();
  const wire::QuotaPolicy only{
      .name = verdict.limited_by,
      .quota = verdict.decision.limit,
      .concurrent = known && found->second.concurrent.contains(verdict.limited_by)};
  wire::append_policy_field(other, {&only, 1});
  return other;
}

std::string_view policy_field(std::string_view limit) {
  // Caches the last one: most calls come with the same limit.
  thread_local std::string cached;
  thread_local std::string field;
  if (limit == cached) return field;
  cached = limit;
  const auto rule = policy::parse_limit(limit);
  field = rule ? field_of({.limits = {{.limit = *rule}}}) : std::string{};
  return field;
}

}  // namespace weir::server
