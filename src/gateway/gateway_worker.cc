#include "gateway/gateway_worker.h"

#include <utility>

#include "gateway/health_checker.h"
#include "gateway/http1_connection.h"

namespace weir::gateway {

GatewayWorker::GatewayWorker(net::LoopContext& loop, GatewayState& state)
    : loop_(loop),
      state_(state),
      engine_(state.engine, state.link()),
      upstream_pool_(loop),
      max_connections_((state.client.max_connections + state.threads - 1) / state.threads),
      runs_health_checks_(state.workers.fetch_add(1) == 0) {}

GatewayWorker::~GatewayWorker() {
  for (const auto& connection : connections_) connection->close();
}

const std::shared_ptr<const Routing>& GatewayWorker::routing() {
  const std::uint64_t version = state_.routing.version();
  if (version != version_) {
    version_ = version;
    routing_ = state_.routing.get();
  }
  return routing_;
}

void GatewayWorker::on_accept(net::FileDescriptor socket, const net::Peer& peer) {
  static const std::string h2_and_http1 = "h2 http/1.1";
  static const std::string http1_only = "http/1.1";
  net::SocketStream stream = state_.tls != nullptr
                                 ? net::SocketStream(std::move(socket), state_.tls->get(),
                                                     state_.http2 ? h2_and_http1 : http1_only)
                                 : net::SocketStream(std::move(socket));
  auto added = std::make_unique<Http1Connection>(*this, std::move(stream), peer);
  added->index = connections_.size();
  connections_.push_back(std::move(added));
}

void GatewayWorker::remove(ClientConnection& connection) noexcept {
  const std::size_t index = connection.index;
  if (index >= connections_.size() || connections_[index].get() != &connection) return;
  loop_.defer_delete(std::move(connections_[index]));
  if (index + 1 != connections_.size()) {
    connections_[index] = std::move(connections_.back());
    connections_[index]->index = index;
  }
  connections_.pop_back();
  ++loop_.closed_count;
}

void GatewayWorker::replace(ClientConnection& connection,
                            std::unique_ptr<ClientConnection> successor) {
  successor->index = connection.index;
  loop_.defer_delete(std::exchange(connections_[connection.index], std::move(successor)));
}

void GatewayWorker::on_tick() {
  upstream_pool_.close_expired();
  leave_retries_.retry_all();
  if (runs_health_checks_) update_health_checkers();
}

// Keeps one checker for each server with active checks; checkers that are still wanted keep
// running.
void GatewayWorker::update_health_checkers() {
  const std::shared_ptr<const Routing> current = routing();
  if (checked_version_ == version_ || current == nullptr) return;
  checked_version_ = version_;
  std::vector<std::unique_ptr<HealthChecker>> next;
  const auto add = [&](const std::shared_ptr<Backend>& backend) {
    if (!backend || !backend->service().health.active) return;
    for (UpstreamServer& server : backend->servers()) {
      const auto checks_it = [&](const auto& p) { return p && &p->server() == &server; };
      if (std::ranges::find_if(next, checks_it) != next.end()) continue;
      const auto old = std::ranges::find_if(health_checkers_, checks_it);
      next.push_back(old != health_checkers_.end()
                         ? std::move(*old)
                         : std::make_unique<HealthChecker>(loop_, backend, server));
    }
  };
  for (const Routing::RouteRuntime& runtime : current->runtimes) {
    add(runtime.backend);
    add(runtime.fallback);
  }
  for (auto& checker : health_checkers_) {
    if (checker) loop_.defer_delete(std::move(checker));
  }
  health_checkers_ = std::move(next);
}

// Backwards: an idle connection removes itself, and the last one takes its index.
void GatewayWorker::shut_down() {
  draining_ = true;
  for (std::size_t i = connections_.size(); i > 0; --i) connections_[i - 1]->shut_down();
}

}  // namespace weir::gateway
