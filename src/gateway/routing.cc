#include "gateway/routing.h"

#include <algorithm>

#include "gateway/jwt.h"

namespace weir::gateway {

namespace {

void add(PolicyTraits& traits, const std::vector<policy::Limit>& limits) {
  for (const policy::Limit& limit : limits) {
    traits.queues |= core::is_queue(limit.rule);
    const auto* concurrent = std::get_if<core::Concurrency>(&limit.rule);
    if (concurrent == nullptr) continue;
    traits.lease = traits.enters ? std::min(traits.lease, concurrent->lease) : concurrent->lease;
    traits.enters = true;
  }
}

PolicyTraits traits_of(const policy::PolicySet& policies, const std::string& name) {
  PolicyTraits traits;
  const auto found = policies.find(name);
  if (found == policies.end()) return traits;
  add(traits, found->second.limits);
  for (const policy::Override& own : found->second.overrides) add(traits, own.limits);
  for (const policy::Shift& shift : found->second.schedule) add(traits, shift.limits);
  return traits;
}

// As many bytes as can be paid for at once.
Permits capacity_of(const policy::PolicySet& policies, const std::string& name) {
  constexpr Permits much = Permits{1} << 20;
  Permits least = much;
  const auto found = policies.find(name);
  if (found == policies.end()) return much;
  for (const policy::Limit& limit : found->second.limits) {
    least = std::min(least, core::capacity(limit.rule));
  }
  return std::max<Permits>(least, 1);
}

std::vector<std::string> headers_read_by(const Route& route) {
  std::vector<std::string> names;
  const auto add_part = [&](const KeyPart& part) {
    for (const KeySource& source : part.sources) {
      if (source.kind == KeySource::Kind::header) names.push_back(source.name);
    }
  };
  std::ranges::for_each(route.key, add_part);
  if (route.bandwidth) add_part(route.bandwidth->key);
  if (route.jwt) names.push_back(route.jwt->rules().header);
  if (route.cost.kind == Cost::Kind::header) names.push_back(route.cost.header);
  return names;
}

}  // namespace

Result<std::shared_ptr<Backend>, Error> Backends::get(const Service& service) {
  for (const auto& backend : all_) {
    if (backend->service() == service) return backend;
  }
  auto made = Backend::open(service, counts_, changed_);
  if (made) all_.push_back(*made);
  return made;
}

void Backends::sweep() {
  std::erase_if(all_, [](const auto& backend) { return backend.use_count() == 1; });
}

Result<std::shared_ptr<const Routing>, Error> make_routing(
    const std::shared_ptr<const Config>& config, const policy::PolicySet& policies,
    Backends& backends, Counts& counts, std::shared_ptr<AccessLogFile> log) {
  auto routing = std::make_shared<Routing>(config, policies);
  routing->log = std::move(log);
  for (const Route& route : config->routes) {
    Routing::Place place{.traits = traits_of(policies, route.policy),
                         .headers_read = headers_read_by(route),
                         .counts = &counts.route(route.name)};
    auto backend = backends.get(route.service);
    if (!backend) return backend.error();
    place.backend = *std::move(backend);
    if (route.refused.fallback) {
      auto fallback = backends.get(*route.refused.fallback);
      if (!fallback) return fallback.error();
      place.fallback = *std::move(fallback);
    }
    if (route.bandwidth) {
      place.bandwidth_key = {route.bandwidth->key};
      place.bandwidth_capacity = capacity_of(policies, route.bandwidth->policy);
    }
    routing->places.push_back(std::move(place));
  }
  return std::shared_ptr<const Routing>(std::move(routing));
}

}  // namespace weir::gateway
