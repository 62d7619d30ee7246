#include "server/rate_policies.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/saturating.h"

namespace weir::server {

namespace {

// In what time a limit grants its capacity, from nothing, where it makes sense to say so.
struct Window {
  using Time = std::optional<Nanos>;

  Time operator()(const core::Bucket& l) const {
    const Int128 nanos = ceil_div(l.depth, l.pace.parts);
    return Nanos{to_int64(nanos)};
  }
  Time operator()(const core::NginxQueue& l) const {
    return Nanos{to_int64(ceil_div(Int128{l.places + 1} * 1'000'000'000'000, l.milli_rate))};
  }
  Time operator()(const core::Smooth&) const { return std::nullopt; }
  Time operator()(const core::Window& l) const { return l.period; }
  Time operator()(const core::Sliding& l) const { return l.period; }
  Time operator()(const core::ExactLog& l) const { return l.period; }
  Time operator()(const core::Quota&) const { return std::nullopt; }
  Time operator()(const core::Concurrency&) const { return std::nullopt; }
  Time operator()(const core::Cell& l) const { return l.depth; }
};

std::string told_of(const policy::Policy& policy) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < policy.limits.size(); ++i) {
    const std::string& name = policy.limits[i].name;
    names.push_back(name.empty() ? std::to_string(i) : name);
  }
  std::vector<wire::QuotaPolicy> limits;
  for (std::size_t i = 0; i < policy.limits.size(); ++i) {
    const core::Limit& rule = policy.limits[i].rule;
    limits.push_back(
        {.name = names[i], .quota = core::capacity(rule), .window = std::visit(Window{}, rule)});
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
