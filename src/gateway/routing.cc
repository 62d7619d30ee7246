#include "gateway/routing.h"

#include <algorithm>

#include "gateway/jwt.h"

namespace weir::gateway {

namespace {

void add(PolicyTraits& traits, const std::vector<policy::Limit>& limits) {
  for (const policy::Limit& limit : limits) {
    traits.has_queue |= core::is_queue(limit.limit);
    const auto* concurrent = std::get_if<core::Concurrency>(&limit.limit);
    if (concurrent == nullptr) continue;
    traits.hold_time = traits.has_concurrency ? std::min(traits.hold_time, concurrent->hold_time)
                                              : concurrent->hold_time;
    traits.has_concurrency = true;
  }
}

PolicyTraits traits_of(const policy::PolicySet& policies, const std::string& name) {
  PolicyTraits traits;
  const auto found = policies.find(name);
  if (found == policies.end()) return traits;
  add(traits, found->second.limits);
  for (const policy::Override& override_ : found->second.overrides) add(traits, override_.limits);
  for (const policy::Shift& shift : found->second.schedule) add(traits, shift.limits);
  return traits;
}

// The most bytes that one take of the policy can be admitted for, at most 1 MiB.
Permits capacity_of(const policy::PolicySet& policies, const std::string& name) {
  constexpr Permits kMaxCapacity = Permits{1} << 20;
  Permits capacity = kMaxCapacity;
  const auto found = policies.find(name);
  if (found == policies.end()) return kMaxCapacity;
  for (const policy::Limit& limit : found->second.limits) {
    capacity = std::min(capacity, core::capacity(limit.limit));
  }
  return std::max<Permits>(capacity, 1);
}

std::vector<std::string> headers_read_by(const RouteConfig& route) {
  std::vector<std::string> names;
  const auto add_part = [&](const KeyPart& part) {
    for (const KeySource& source : part.sources) {
      if (source.kind == KeySource::SourceKind::header) names.push_back(source.name);
    }
  };
  std::ranges::for_each(route.key, add_part);
  if (route.bandwidth) add_part(route.bandwidth->key);
  if (route.jwt) names.push_back(route.jwt->rules().header);
  if (route.cost.kind == RequestCost::CostKind::header) names.push_back(route.cost.header);
  return names;
}

}  // namespace

Result<std::shared_ptr<Backend>, Error> BackendRegistry::get(const ServiceConfig& service) {
  for (const auto& backend : backends_) {
    if (backend->service() == service) return backend;
  }
  auto opened = Backend::open(service, metrics_, on_change_);
  if (opened) backends_.push_back(*opened);
  return opened;
}

void BackendRegistry::drop_unused() {
  std::erase_if(backends_, [](const auto& backend) { return backend.use_count() == 1; });
}

Result<std::shared_ptr<const Routing>, Error> make_routing(
    const std::shared_ptr<const GatewayConfig>& config, const policy::PolicySet& policies,
    BackendRegistry& backends, GatewayMetrics& metrics, std::shared_ptr<AccessLogFile> log) {
  auto routing = std::make_shared<Routing>(config, policies);
  routing->log = std::move(log);
  for (const RouteConfig& route : config->routes) {
    Routing::RouteRuntime runtime{.traits = traits_of(policies, route.policy),
                                  .headers_read = headers_read_by(route),
                                  .metrics = &metrics.route(route.name)};
    auto backend = backends.get(route.service);
    if (!backend) return backend.error();
    runtime.backend = *std::move(backend);
    if (route.refused.fallback) {
      auto fallback = backends.get(*route.refused.fallback);
      if (!fallback) return fallback.error();
      runtime.fallback = *std::move(fallback);
    }
    if (route.bandwidth) {
      runtime.bandwidth_key = {route.bandwidth->key};
      runtime.bandwidth_capacity = capacity_of(policies, route.bandwidth->policy);
    }
    routing->runtimes.push_back(std::move(runtime));
  }
  return std::shared_ptr<const Routing>(std::move(routing));
}

}  // namespace weir::gateway
