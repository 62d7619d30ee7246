#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/rate_headers.h"
#include "envoy/call.h"
#include "envoy/service.h"
#include "net/loops.h"
#include "policy/config.h"
#include "server/memory_gauge.h"
#include "server/metrics.h"
#include "server/policies.h"
#include "server/receipts.h"
#include "server/worker.h"
#include "weir/engine.h"
#include "weir/redis.h"

namespace weir::server {

// Who may come in. Never changes while the process runs.
struct Access {
  std::string password;     // none: anybody
  std::string admin_token;  // none: verbs that change things are for this machine only
  // Names with a dot that a request without the password may have in Host. None: any name.
  std::optional<std::vector<std::string>> host_names{};
};

// How often the policy file was read again.
struct Reloads {
  std::atomic<std::uint64_t> succeeded{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<bool> last_succeeded{true};
};

// Envoy's rate limit service, as its doors know it. Empty: there is none.
struct EnvoyService {
  using Done = std::function<void(Result<envoy::Answer, envoy::Failure>)>;

  // Tells `done` once, perhaps before it returns, and on the same thread.
  std::function<void(const envoy::Call&, Link&, Done done)> should_rate_limit{};
  // Whether it has rules to go by.
  std::function<bool()> is_configured{};
};

// What all sessions share.
struct Service {
  Engine& engine;
  Policies& policies;
  const net::Loops& loops;
  Metrics& metrics;
  const MemoryGauge& memory;
  Access access;
  HeaderStyle headers = HeaderStyle::ietf;
  LegacyHeaders legacy_headers{};
  bool has_fleet = false;             // limits may count on the fleet
  const RedisFleet* redis = nullptr;  // which it is
  Worker* worker = nullptr;           // for what may block; none: it is done at once
  EnvoyService envoy{};
  envoy::Service* envoy_rules = nullptr;  // what is behind it
  Receipts receipts{};
  Reloads reloads{};
  std::atomic<bool> ending = false;  // who asks for its health is told
  const std::chrono::system_clock::time_point started = std::chrono::system_clock::now();
  std::atomic<std::uint64_t> tls_failures{0};  // connections that did not come to speak TLS

  // Of others in this process. Set before anybody is let in.
  std::function<void(wire::Exposition&)> more_metrics{};

  // As Redis clients expect it: lines of name:value under headings.
  std::string info() const;
};

// Compares secrets in a time that does not tell how much of them was right.
bool same_secret(std::string_view given, std::string_view secret) noexcept;

// A caller's rights, as far as they are known.
struct Rights {
  bool loopback = false;
  bool let_in = false;  // has shown the password
  bool admin = false;   // has shown the token

  // Whether they suffice to call at all, and for verbs that change what others have.
  bool may_call(const Access& access) const { return let_in || admin || access.password.empty(); }
  bool may_change(const Access& access) const {
    return admin || (access.admin_token.empty() && loopback);
  }
};

// What a field Authorization: Bearer … is good for.
Rights rights_from(std::string_view authorization, const Access& access);

}  // namespace weir::server
