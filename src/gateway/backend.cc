#include "gateway/backend.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::gateway {

namespace {

std::int64_t nanos_of(Server::Clock::time_point time) { return time.time_since_epoch().count(); }

}  // namespace

bool Server::is_up(Clock::time_point now) const {
  return passes_.load(std::memory_order_relaxed) && rests_until() <= nanos_of(now);
}

void Server::set_up(bool up) {
  counts_->up = up;
  if (up_.exchange(up) != up && changed_) changed_(upstream_, up);
}

void Server::note_success() {
  // (Looked at first: all threads would have to agree on who writes.)
  if (failures_.load(std::memory_order_relaxed) == 0) return;
  failures_.store(0, std::memory_order_relaxed);
  rest_factor_.store(1, std::memory_order_relaxed);
  rests_until_.store(0, std::memory_order_relaxed);
  set_up(passes_.load());
}

void Server::note_failure(ServerFailure failure, Clock::time_point now) {
  counts_->failures[static_cast<std::size_t>(failure)].fetch_add(1, std::memory_order_relaxed);
  if (!health_.passive) return;
  const int failures = failures_.fetch_add(1) + 1;
  if (failures < health_.passive->failures || rests_until() > nanos_of(now)) return;
  const int factor = rest_factor_.load();
  rest_factor_.store(std::min(2 * factor, kLongestRest));
  rests_until_.store(nanos_of(now) + factor * health_.passive->pause.count());
  counts_->ejections.fetch_add(1, std::memory_order_relaxed);
  set_up(false);
}

void Server::note_check(bool good) {
  if (!health_.active) return;
  if (good == passes_.load()) {
    checks_in_a_row_ = 0;
    return;
  }
  const int needed = good ? health_.active->healthy : health_.active->unhealthy;
  if (++checks_in_a_row_ < needed) return;
  checks_in_a_row_ = 0;
  passes_ = good;
  set_up(good);
}

Result<std::shared_ptr<Backend>, Error> Backend::open(const Service& service, Counts& counts,
                                                      const ServerChanged& changed) {
  std::shared_ptr<Backend> backend(new Backend(service));
  for (const Upstream& upstream : service.servers) {
    const auto address = net::resolve(upstream.host, upstream.port);
    if (!address) {
      return Error{fmt::format("gateway: upstream {}: {}", upstream.text, address.error().message)};
    }
    backend->servers_.emplace_back(upstream, *address, service.health, counts.server(upstream.text),
                                   changed);
    if (!upstream.tls || backend->tls_) continue;
    auto context = net::load_client_tls({});
    if (!context) return context.error();
    backend->tls_ = *std::move(context);
  }
  return backend;
}

Server& Backend::choose(std::span<Server* const> tried) {
  const auto now = Server::Clock::now();
  const std::uint64_t turn = turn_.fetch_add(1, std::memory_order_relaxed);
  Server* best = nullptr;
  // Up and not tried; then not tried; then up; then any: of equals the one whose turn it is, or
  // with the fewest requests.
  const auto rank = [&](Server& server) {
    const bool was_tried = std::ranges::find(tried, &server) != tried.end();
    return (was_tried ? 2 : 0) + (server.is_up(now) ? 0 : 1);
  };
  int best_rank = 0;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    Server& server = servers_[(turn + i) % servers_.size()];
    const int its_rank = rank(server);
    bool better = best == nullptr || its_rank < best_rank;
    if (!better && its_rank == best_rank) {
      if (its_rank % 2 == 1) {
        better = server.rests_until() < best->rests_until();
      } else if (service_.balance == Balance::least_connections) {
        better = server.in_flight.load(std::memory_order_relaxed) <
                 best->in_flight.load(std::memory_order_relaxed);
      }
    }
    if (better) {
      best = &server;
      best_rank = its_rank;
    }
    if (best_rank == 0 && service_.balance == Balance::round_robin) break;
  }
  return *best;
}

}  // namespace weir::gateway
