#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "envoy/messages.h"
#include "policy/policy_file.h"
#include "weir/engine.h"
#include "weir/fleet.h"
#include "weir/result.h"
#include "wire/rate_headers.h"

namespace weir::envoy {

struct RuleSet;             // envoy/rules.h
struct RequestExplanation;  // envoy/explain.h

// The counters of one rule, in hits and not in requests, as in envoyproxy/ratelimit.
struct RuleCounts {
  std::string key;  // domain and path of the rule: "shop.user.path_/buy"
  std::uint64_t total = 0;
  std::uint64_t over = 0;
  std::uint64_t near = 0;  // within the limit, but above four fifths of it
  std::uint64_t within = 0;
  std::uint64_t shadow = 0;  // would have been over
};

struct ServiceCounters {
  std::vector<RuleCounts> rules;  // bounded by the configuration
  std::uint64_t domain_not_found = 0;
  std::uint64_t shadow = 0;          // requests that passed only because of shadow_mode
  std::uint64_t service_errors = 0;  // invalid requests
  std::uint64_t store_errors = 0;    // requests without an answer of the store
  std::uint64_t degraded = 0;        // requests that this node answered instead of the store
  std::uint64_t loads = 0;           // configurations that were applied
  std::uint64_t failed_loads = 0;
};

// How requests are answered.
struct ServiceOptions {
  bool as_envoyproxy = false;     // compat: each descriptor is charged on its own
  bool response_headers = false;  // adds RateLimit-Limit, -Remaining and -Reset
  wire::HeaderNames header_names{};
  bool dynamic_metadata = false;  // the request, and the metadata of the rules that admitted it
  bool shadow_mode = false;       // no request is refused; statuses tell what would be
  bool quota_mode = false;        // all rules are quotas
  policy::OnStoreFailure on_store_failure = policy::OnStoreFailure::error;

  friend bool operator==(const ServiceOptions&, const ServiceOptions&) = default;
};

// Envoy's rate limit service, for every listener and encoding. One for all threads. Its rules are
// replaced as a whole. Thread-safe.
class RateLimitService {
 public:
  using ResponseCallback = std::function<void(Result<RateLimitResponse, ServiceError>)>;

  // The engine must outlive the service.
  explicit RateLimitService(Engine& engine);
  ~RateLimitService();
  RateLimitService(const RateLimitService&) = delete;
  RateLimitService& operator=(const RateLimitService&) = delete;

  // Replaces rules and options. Null rules: nothing is configured, and every request is an error.
  void use(std::shared_ptr<const RuleSet> rules, const ServiceOptions& options = {});
  // Increments the counter of failed reloads.
  void note_failed_reload();
  // True if there are rules. The health of "ratelimit" follows it.
  bool is_configured() const;

  // Decides. Calls `done` exactly once: before it returns if the limits count on this node, else
  // later on the thread that runs the link. The request may go out of scope at once.
  void should_rate_limit(const RateLimitRequest& call, Link& link, ResponseCallback done);

  // Explains the walk of each descriptor through the rules, and the state of its limit. Takes
  // nothing.
  void explain(const RateLimitRequest& call, Link& link,
               std::function<void(Result<RequestExplanation, ServiceError>)> done);

  ServiceCounters counts() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::envoy
