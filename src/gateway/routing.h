#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "gateway/access_log.h"
#include "gateway/backend.h"
#include "gateway/claim.h"
#include "gateway/config.h"
#include "gateway/match.h"
#include "gateway/refusal.h"
#include "policy/policy_file.h"

namespace weir::gateway {

// A gateway's routes, and what they need: made of a file and of the policies in force, and never
// changed. Whoever is under way keeps what it has begun with.
struct Routing {
  // What belongs to one route, by its position.
  struct Place {
    std::shared_ptr<Backend> backend{};
    std::shared_ptr<Backend> fallback{};  // none: refusals are answered here
    PolicyTraits traits{};
    std::vector<KeyPart> bandwidth_key{};
    Permits bandwidth_capacity = 0;
    std::vector<std::string> headers_read{};  // by which it is counted, in lower case
    RouteCounts* counts = nullptr;
  };

  Routing(std::shared_ptr<const Config> the_config, const policy::PolicySet& policies)
      : config(std::move(the_config)),
        table(config->routes),
        lines(policies, config->legacy_headers) {}

  const std::shared_ptr<const Config> config;
  const RouteTable table;
  const RateLines lines;
  std::shared_ptr<AccessLogFile> log{};  // none: there is none
  std::vector<Place> places{};
};

// The servers of all routes. Equal services share theirs, and go on through a reload. For one
// thread.
class Backends {
 public:
  Backends(Counts& counts, ServerChanged changed) : counts_(counts), changed_(std::move(changed)) {}

  Result<std::shared_ptr<Backend>, Error> get(const Service& service);
  // Forgets those that nobody uses.
  void sweep();

 private:
  Counts& counts_;
  const ServerChanged changed_;
  std::vector<std::shared_ptr<Backend>> all_;
};

// The error of a server whose name cannot be looked up.
Result<std::shared_ptr<const Routing>, Error> make_routing(
    const std::shared_ptr<const Config>& config, const policy::PolicySet& policies,
    Backends& backends, Counts& counts, std::shared_ptr<AccessLogFile> log);

// The routing that newcomers get. Thread-safe.
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
  // Another one since there is another routing.
  std::uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Routing> routing_;
  std::atomic<std::uint64_t> version_{0};
};

}  // namespace weir::gateway
