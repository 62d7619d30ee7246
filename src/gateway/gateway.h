#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config.h"
#include "gateway/gateway_worker.h"
#include "net/loops.h"
#include "policy/policy_file.h"
#include "weir/engine.h"
#include "weir/result.h"
#include "wire/exposition.h"

namespace weir::gateway {

// The parts of the daemon that a gateway uses. All of them outlive the loops.
struct GatewayDeps {
  Engine& engine;
  net::Loops& loops;  // not started yet
  std::size_t threads = 1;
  std::function<Link&()> link;                    // the link of the calling thread
  std::function<policy::PolicySet()> policies{};  // returns the policies in force
  const net::CurrentTls* tls = nullptr;           // null: plain TCP
  std::function<void(const net::Peer&, std::string_view why)> on_tls_failure{};
  ServerStateCallback on_server_state{};
};

// A reverse proxy that applies limits. It has a listener of its own on the daemon's loops and
// shares the daemon's engine. Its methods are for the thread that made it; requests are served on
// the threads of the loops.
class Gateway {
 public:
  // Resolves the servers' names, opens the access log and binds the listener. No connection is
  // accepted before the loops start.
  static Result<std::unique_ptr<Gateway>, Error> open(GatewayConfig config, GatewayDeps deps);

  std::uint16_t port() const { return state_->port; }

  // Replaces the routes; requests in progress keep the old ones. Returns the names of changed
  // fields that need a restart to take effect. Fails without any change if a server's name does not
  // resolve or the log cannot be opened.
  Result<std::vector<std::string>, Error> reload(GatewayConfig config);

  // To be called periodically: follows changed policies, flushes the access log and reopens a
  // rotated one.
  void on_tick();

  void append_to(wire::Exposition& to) const { state_->metrics.append_to(to); }

 private:
  Gateway(GatewayConfig config, GatewayDeps deps);
  std::optional<Error> apply(std::shared_ptr<const GatewayConfig> config);

  const GatewayDeps deps_;
  std::shared_ptr<const GatewayConfig> config_;
  std::shared_ptr<GatewayState> state_;
  BackendRegistry backends_;
  std::shared_ptr<AccessLogFile> log_;
  std::uint64_t generation_ = 0;
};

}  // namespace weir::gateway
