#include "server/rate_policies.h"

#include <algorithm>
#include <map>
#include <memory>
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

// All that is told about policies that are the same for everybody. Names point into `names`.
struct Told {
  std::vector<std::unique_ptr<std::string>> names;
  std::map<std::string, std::vector<wire::QuotaPolicy>, std::less<>> policies;
};

Told tell(const policy::PolicySet& policies) {
  Told told;
  for (const auto& [name, policy] : policies) {
    if (!policy.overrides.empty() || !policy.schedule.empty()) continue;
    std::vector<wire::QuotaPolicy>& limits = told.policies[name];
    for (std::size_t i = 0; i < policy.limits.size(); ++i) {
      const policy::Limit& limit = policy.limits[i];
      told.names.push_back(
          std::make_unique<std::string>(limit.name.empty() ? std::to_string(i) : limit.name));
      limits.push_back({.name = *told.names.back(),
                        .quota = core::capacity(limit.rule),
                        .window = std::visit(Window{}, limit.rule)});
    }
  }
  return told;
}

}  // namespace

std::span<const wire::QuotaPolicy> quota_policies(Service& service, std::string_view policy,
                                                  const Verdict& verdict) {
  using Source = std::pair<std::uint64_t, std::uint64_t>;  // whose, and which generation
  thread_local Source source;
  thread_local Told told;
  thread_local wire::QuotaPolicy only;
  const Source now{service.policies.id(), service.engine.generation()};
  if (now != source) {
    told = tell(service.policies.in_force());
    source = now;
  }
  const auto found = told.policies.find(policy);
  if (found != told.policies.end()) return found->second;
  only = {.name = verdict.limited_by, .quota = verdict.decision.limit};
  return {&only, 1};
}

}  // namespace weir::server
