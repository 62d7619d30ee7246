#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "gateway/admission.h"
#include "gateway/client_connection.h"
#include "gateway/gateway_metrics.h"
#include "gateway/routing.h"
#include "gateway/upstream_pool.h"
#include "net/loop_context.h"
#include "net/tls_context.h"
#include "weir/async_engine.h"

namespace weir::gateway {

class HealthChecker;

// State that all threads of a gateway share.
struct GatewayState {
  Engine& engine;
  std::function<Link&()> link;           // the link of the calling thread, to the fleet
  const net::CurrentTls* tls = nullptr;  // null: plain TCP
  ClientLimits client{};
  std::size_t threads = 1;
  std::uint16_t port = 0;
  bool http2 = true;  // HTTP/2 is offered to clients
  CurrentRouting routing{};
  GatewayMetrics metrics{};
  std::atomic<std::size_t> workers{0};
  // Called when a TLS handshake with a client fails.
  std::function<void(const net::Peer&, std::string_view why)> on_tls_failure{};
};

// The client connections of one thread, and the pool of upstream connections that they share. For
// the thread of its loop.
class GatewayWorker final : public net::ConnectionHandler {
 public:
  GatewayWorker(net::LoopContext& loop, GatewayState& state);
  ~GatewayWorker() override;

  void on_accept(net::FileDescriptor socket, const net::Peer& peer) override;
  bool can_accept() const override { return connections_.size() < max_connections_; }
  void on_tick() override;
  void shut_down() override;
  bool is_empty() const override { return connections_.empty(); }

  net::LoopContext& loop() { return loop_; }
  GatewayState& state() { return state_; }
  AsyncEngine& engine() { return engine_; }
  UpstreamPool& upstream_pool() { return upstream_pool_; }
  LeaveRetries& leave_retries() { return leave_retries_; }
  const std::shared_ptr<const Routing>& routing();
  bool is_draining() const { return draining_; }
  // Removes a connection that has ended.
  void remove(ClientConnection& connection) noexcept;
  // Hands the socket of a connection over to another handler.
  void replace(ClientConnection& connection, std::unique_ptr<ClientConnection> successor);

 private:
  void update_health_checkers();

  net::LoopContext& loop_;
  GatewayState& state_;
  AsyncEngine engine_;
  UpstreamPool upstream_pool_;
  LeaveRetries leave_retries_;
  const std::size_t max_connections_;
  const bool runs_health_checks_;  // only one worker runs the active health checks
  std::shared_ptr<const Routing> routing_;
  std::uint64_t version_ = 0;
  std::uint64_t checked_version_ = 0;
  std::vector<std::unique_ptr<ClientConnection>> connections_;
  std::vector<std::unique_ptr<HealthChecker>> health_checkers_;
  bool draining_ = false;
};

}  // namespace weir::gateway
