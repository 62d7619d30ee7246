#include "gateway/backend.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::gateway {

namespace {

std::int64_t nanos_of(UpstreamServer::Clock::time_point time) {
  return time.time_since_epoch().count();
}

}  // namespace

bool UpstreamServer::is_up(Clock::time_point now) const {
  return checks_pass_.load(std::memory_order_relaxed) && ejected_until() <= nanos_of(now);
}

void UpstreamServer::set_up(bool up) {
  metrics_->up = up;
  if (up_.exchange(up) != up && changed_) changed_(upstream_, up);
}

void UpstreamServer::record_success() {
  // Read before the write: a store on every success would bounce the cache line between cores.
  if (failures_.load(std::memory_order_relaxed) == 0) return;
  failures_.store(0, std::memory_order_relaxed);
  ejection_factor_.store(1, std::memory_order_relaxed);
  ejected_until_.store(0, std::memory_order_relaxed);
  set_up(checks_pass_.load());
}

void UpstreamServer::record_failure(UpstreamFailure failure, Clock::time_point now) {
  metrics_->failures[static_cast<std::size_t>(failure)].fetch_add(1, std::memory_order_relaxed);
  if (!health_.passive) return;
  const int failures = failures_.fetch_add(1) + 1;
  if (failures < health_.passive->failures || ejected_until() > nanos_of(now)) return;
  const int factor = ejection_factor_.load();
  ejection_factor_.store(std::min(2 * factor, kMaxEjectionFactor));
  ejected_until_.store(nanos_of(now) + factor * health_.passive->ejection_time.count());
  metrics_->ejections.fetch_add(1, std::memory_order_relaxed);
  set_up(false);
}

void UpstreamServer::record_check(bool good) {
  if (!health_.active) return;
  if (good == checks_pass_.load()) {
    contrary_checks_ = 0;
    return;
  }
  const int needed = good ? health_.active->healthy : health_.active->unhealthy;
  if (++contrary_checks_ < needed) return;
  contrary_checks_ = 0;
  checks_pass_ = good;
  set_up(good);
}

Result<std::shared_ptr<Backend>, Error> Backend::open(const ServiceConfig& service,
                                                      GatewayMetrics& metrics,
                                                      const ServerStateCallback& changed) {
  std::shared_ptr<Backend> backend(new Backend(service));
  for (const Upstream& upstream : service.servers) {
    const auto address = net::resolve(upstream.host, upstream.port);
    if (!address) {
      return Error{fmt::format("gateway: upstream {}: {}", upstream.text, address.error().message)};
    }
    backend->servers_.emplace_back(upstream, *address, service.health,
                                   metrics.server(upstream.text), changed);
    if (!upstream.tls || backend->tls_) continue;
    auto context = net::load_client_tls({});
    if (!context) return context.error();
    backend->tls_ = *std::move(context);
  }
  return backend;
}

UpstreamServer& Backend::choose(std::span<UpstreamServer* const> tried) {
  const auto now = UpstreamServer::Clock::now();
  const std::uint64_t turn = turn_.fetch_add(1, std::memory_order_relaxed);
  UpstreamServer* best = nullptr;
  // Ranks servers: up and not tried, not tried, up, any. Ties go to round robin or to the fewest
  // requests.
  const auto rank = [&](UpstreamServer& server) {
    const bool was_tried = std::ranges::find(tried, &server) != tried.end();
    return (was_tried ? 2 : 0) + (server.is_up(now) ? 0 : 1);
  };
  int best_rank = 0;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    UpstreamServer& server = servers_[(turn + i) % servers_.size()];
    const int its_rank = rank(server);
    bool better = best == nullptr || its_rank < best_rank;
    if (!better && its_rank == best_rank) {
      if (its_rank % 2 == 1) {
        better = server.ejected_until() < best->ejected_until();
      } else if (service_.balance == LoadBalancing::least_connections) {
        better = server.in_flight.load(std::memory_order_relaxed) <
                 best->in_flight.load(std::memory_order_relaxed);
      }
    }
    if (better) {
      best = &server;
      best_rank = its_rank;
    }
    if (best_rank == 0 && service_.balance == LoadBalancing::round_robin) break;
  }
  return *best;
}

}  // namespace weir::gateway
