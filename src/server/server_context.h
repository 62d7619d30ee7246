#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "envoy/messages.h"
#include "envoy/service.h"
#include "net/loops.h"
#include "policy/config.h"
#include "server/job_thread.h"
#include "server/memory_gauge.h"
#include "server/metrics.h"
#include "server/policies.h"
#include "server/receipts.h"
#include "weir/engine.h"
#include "weir/redis.h"
#include "wire/rate_headers.h"

namespace weir::server {

// The secrets and names that requests are checked against. Never changes while the process runs.
struct Access {
  std::string password;     // empty: none is needed
  std::string admin_token;  // empty: changes are allowed from this machine only
  // Names with a dot that Host may have in a request without a secret. None: any name.
  std::optional<std::vector<std::string>> host_names{};
};

// Counts of reloads of the policy file.
struct Reloads {
  std::atomic<std::uint64_t> succeeded{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<bool> last_succeeded{true};
};

// Envoy's rate limit service, as sessions call it. Empty: there is none.
struct EnvoyService {
  using Callback = std::function<void(Result<envoy::RateLimitResponse, envoy::ServiceError>)>;

  // Calls `done` once, on the same thread, perhaps before it returns.
  std::function<void(const envoy::RateLimitRequest&, Link&, Callback done)> should_rate_limit{};
  // True if it has rules.
  std::function<bool()> is_configured{};
};

// The state that all sessions share. Outlives them.
struct ServerContext {
  Engine& engine;
  Policies& policies;
  const net::Loops& loops;
  Metrics& metrics;
  const MemoryGauge& memory;
  Access access;
  wire::HeaderStyle headers = wire::HeaderStyle::ietf;
  wire::LegacyHeaders legacy_headers{};
  bool has_fleet = false;             // limits may count on the fleet
  const RedisFleet* redis = nullptr;  // the fleet, if it is one on Redis
  JobThread* job_thread = nullptr;    // none: blocking jobs run at once, on the calling thread
  EnvoyService envoy{};
  envoy::RateLimitService* envoy_rules = nullptr;  // the service behind `envoy`
  Receipts receipts{};
  Reloads reloads{};
  std::atomic<bool> is_draining = false;  // reported by health checks
  const std::chrono::system_clock::time_point started = std::chrono::system_clock::now();
  std::atomic<std::uint64_t> tls_failures{0};

  // Appends the metrics of a gateway in the same process. Set before connections are accepted.
  std::function<void(wire::Exposition&)> extra_metrics{};

  // The reply to INFO: lines of name:value under headings, as in Redis.
  std::string info() const;
};

// Compares secrets in a time that depends on the length of `given` only (no timing side channel).
bool same_secret(std::string_view given, std::string_view secret) noexcept;

// The rights that a verb needs: none, to call, or to change what others have.
enum class RequiredRights { none, call, change };

// The rights that a client has shown so far.
struct Rights {
  bool loopback = false;
  bool has_password = false;
  bool admin = false;  // has shown the admin token

  bool may_call(const Access& access) const {
    return has_password || admin || access.password.empty();
  }
  bool may_change(const Access& access) const {
    return admin || (access.admin_token.empty() && loopback);
  }
};

// The rights that the value of an Authorization field gives.
Rights rights_from(std::string_view authorization, const Access& access);

}  // namespace weir::server
