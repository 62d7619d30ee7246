#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "gateway/access_log.h"
#include "gateway/admission.h"
#include "gateway/backend.h"
#include "gateway/config.h"
#include "gateway/deny_reply.h"
#include "gateway/route_table.h"
#include "policy/policy_file.h"

namespace weir::gateway {

// The routes of a gateway with what they need at run time. Immutable: made from a configuration and
// the policies in force. Requests in progress keep the one that they began with.
struct Routing {
  // The runtime of one route, at the same index as its configuration.
  struct RouteRuntime {
    std::shared_ptr<Backend> backend{};
    std::shared_ptr<Backend> fallback{};  // null: denied requests are answered by the gateway
    PolicyTraits traits{};
    std::vector<KeyPart> bandwidth_key{};
    Permits bandwidth_capacity = 0;
    std::vector<std::string> headers_read{};  // by the key or the cost, in lower case
    RouteMetrics* metrics = nullptr;
  };

  Routing(std::shared_ptr<const GatewayConfig> routes_config, const policy::PolicySet& policies)
      : config(std::move(routes_config)),
        table(config->routes),
        rate_limit_headers(policies, config->legacy_headers) {}

  const std::shared_ptr<const GatewayConfig> config;
  const RouteTable table;
  const RateLimitHeaders rate_limit_headers;
  std::shared_ptr<AccessLogFile> log{};  // null: no access log
  std::vector<RouteRuntime> runtimes{};
};

// The backends of all routes. Routes with equal services share one, and it survives a reload. For
// one thread.
class BackendRegistry {
 public:
  BackendRegistry(GatewayMetrics& metrics, ServerStateCallback on_change)
      : metrics_(metrics), on_change_(std::move(on_change)) {}

  Result<std::shared_ptr<Backend>, Error> get(const ServiceConfig& service);
  // Drops backends without users.
  void drop_unused();

 private:
  GatewayMetrics& metrics_;
  const ServerStateCallback on_change_;
  std::vector<std::shared_ptr<Backend>> backends_;
};

// Fails if the name of a server does not resolve.
Result<std::shared_ptr<const Routing>, Error> make_routing(
    const std::shared_ptr<const GatewayConfig>& config, const policy::PolicySet& policies,
    BackendRegistry& backends, GatewayMetrics& metrics, std::shared_ptr<AccessLogFile> log);

// The routing for new requests. Thread-safe.
class CurrentRouting {
 public:
  void use(std::shared_ptr<const Routing> routing) {
    const std::lock_guard lock(mutex_);
    routing_.swap(routing);
    version_.fetch_add(1, std::memory_order_release);
  }
  std::shared_ptr<const Routing> get() const {
    const std::lock_guard lock(mutex_);
    return routing_;
  }
  // Changes with every `use`.
  std::uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Routing> routing_;
  std::atomic<std::uint64_t> version_{0};
};

}  // namespace weir::gateway
