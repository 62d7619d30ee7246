#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "gateway/config.h"
#include "gateway/gateway_metrics.h"
#include "net/sockets.h"
#include "net/tls_context.h"
#include "weir/result.h"

namespace weir::gateway {

// Called when a server goes down or comes back up, on the thread that notices.
using ServerStateCallback = std::function<void(const Upstream& server, bool up)>;

// One server of a service and its health. Thread-safe: all threads send requests to it and report
// the results.
class UpstreamServer {
 public:
  using Clock = std::chrono::steady_clock;

  UpstreamServer(Upstream upstream, const net::SocketAddress& address,
                 const HealthCheckConfig& health, UpstreamMetrics& metrics,
                 ServerStateCallback changed)
      : upstream_(std::move(upstream)),
        address_(address),
        health_(health),
        metrics_(&metrics),
        changed_(std::move(changed)) {}

  const Upstream& upstream() const { return upstream_; }
  const net::SocketAddress& address() const { return address_; }
  UpstreamMetrics& metrics() const { return *metrics_; }

  // False while it is ejected, or while its active checks fail.
  bool is_up(Clock::time_point now) const;
  // End of the ejection, in nanoseconds of the steady clock; 0: none.
  std::int64_t ejected_until() const { return ejected_until_.load(std::memory_order_relaxed); }

  // The result of a request. Failures in a row eject the server (passive health, outlier
  // detection), each time for longer.
  void record_success();
  void record_failure(UpstreamFailure failure, Clock::time_point now);
  // The result of an active health check.
  void record_check(bool good);

  std::atomic<int> in_flight{0};

 private:
  void set_up(bool up);

  static constexpr int kMaxEjectionFactor = 8;  // multiples of the configured time

  const Upstream upstream_;
  const net::SocketAddress address_;
  const HealthCheckConfig health_;
  UpstreamMetrics* const metrics_;
  const ServerStateCallback changed_;

  std::atomic<bool> up_{true};
  std::atomic<int> failures_{0};  // in a row
  std::atomic<int> ejection_factor_{1};
  std::atomic<std::int64_t> ejected_until_{0};  // nanoseconds of the steady clock
  // Active checks.
  std::atomic<bool> checks_pass_{true};
  std::atomic<int> contrary_checks_{0};  // results in a row that contradict checks_pass_
};

// The servers of one service, with load balancing. Thread-safe.
class Backend {
 public:
  // Resolves the servers' names; fails if one does not resolve.
  static Result<std::shared_ptr<Backend>, Error> open(const ServiceConfig& service,
                                                      GatewayMetrics& metrics,
                                                      const ServerStateCallback& changed = {});

  const ServiceConfig& service() const { return service_; }
  std::deque<UpstreamServer>& servers() { return servers_; }
  // The TLS context for https servers.
  const net::TlsContext& tls() const { return tls_; }

  // Chooses the server of the next request, not one of `tried` if there is another. If all are
  // down, the one whose ejection ends first: a request has to find out that it is back.
  UpstreamServer& choose(std::span<UpstreamServer* const> tried);

 private:
  explicit Backend(ServiceConfig service) : service_(std::move(service)) {}

  const ServiceConfig service_;
  net::TlsContext tls_;
  std::deque<UpstreamServer> servers_;
  std::atomic<std::uint64_t> turn_{0};
};

}  // namespace weir::gateway
