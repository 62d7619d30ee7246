#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/rate_headers.h"
#include "envoy/call.h"
#include "policy/policy_file.h"
#include "weir/engine.h"
#include "weir/fleet.h"
#include "weir/result.h"

namespace weir::envoy {

struct Rules;        // envoy/rules.h
struct Explanation;  // envoy/explain.h

// What was counted of one rule, as envoyproxy/ratelimit counts it: in hits, not in calls.
struct RuleCounts {
  std::string key;  // the domain and the way to the rule: "shop.user.path_/buy"
  std::uint64_t total = 0;
  std::uint64_t over = 0;
  std::uint64_t near = 0;  // within the limit, but above four fifths of it
  std::uint64_t within = 0;
  std::uint64_t shadow = 0;  // would have been over
};

struct Counts {
  std::vector<RuleCounts> rules;  // bounded by the configuration
  std::uint64_t domain_not_found = 0;
  std::uint64_t shadow = 0;          // calls that passed only because all do
  std::uint64_t service_errors = 0;  // calls that made no sense
  std::uint64_t store_errors = 0;    // calls for which the store could not be asked
  std::uint64_t degraded = 0;        // calls that this node answered instead of the store
  std::uint64_t loads = 0;           // configurations that were read
  std::uint64_t failed_loads = 0;
};

// How calls are answered.
struct ServiceOptions {
  bool as_envoyproxy = false;     // compat: every descriptor is charged on its own
  bool response_headers = false;  // RateLimit-Limit, -Remaining and -Reset go with each answer
  HeaderNames header_names{};
  bool dynamic_metadata = false;  // what was asked, and the metadata of rules that have passed
  bool shadow_mode = false;       // of all calls: none is refused, each is told what would be
  bool quota_mode = false;        // of all rules
  policy::OnStoreFailure on_store_failure = policy::OnStoreFailure::error;

  friend bool operator==(const ServiceOptions&, const ServiceOptions&) = default;
};

// Envoy's rate limit service: what its doors ask, whatever they speak. There is one of it, for all
// threads; its rules are replaced whole.
class Service {
 public:
  using Done = std::function<void(Result<Answer, Failure>)>;

  // The engine must outlive it.
  explicit Service(Engine& engine);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Other rules from now on, to be followed in that way. None: nothing is configured, and every
  // call is an error.
  void use(std::shared_ptr<const Rules> rules, const ServiceOptions& options = {});
  // Somebody wanted other rules, but they could not be read: it is counted.
  void note_failed_load();
  // Whether there are rules: what the health of "ratelimit" says.
  bool is_configured() const;

  // Decides. `done` is called exactly once: before this returns, where limits count on this node,
  // or else later, on the thread that runs the link. The call may go out of scope at once.
  void should_rate_limit(const Call& call, Link& link, Done done);

  // The walk of each descriptor through the rules, and the state of the limit it leads to. Takes
  // nothing.
  void explain(const Call& call, Link& link,
               std::function<void(Result<Explanation, Failure>)> done);

  Counts counts() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::envoy
