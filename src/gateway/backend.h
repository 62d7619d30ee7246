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
#include "gateway/counts.h"
#include "net/listen.h"
#include "net/tls_context.h"
#include "weir/result.h"

namespace weir::gateway {

// Told when a server has gone down or is up again, on the thread that found out.
using ServerChanged = std::function<void(const Upstream& server, bool up)>;

// One server of a service, and how it does. Thread-safe: all threads send requests to it, and each
// tells how it went.
class Server {
 public:
  using Clock = std::chrono::steady_clock;

  Server(Upstream upstream, const net::Address& address, const Health& health, ServerCounts& counts,
         ServerChanged changed)
      : upstream_(std::move(upstream)),
        address_(address),
        health_(health),
        counts_(&counts),
        changed_(std::move(changed)) {}

  const Upstream& upstream() const { return upstream_; }
  const net::Address& address() const { return address_; }
  ServerCounts& counts() const { return *counts_; }

  // Whether it may be asked, as far as is known.
  bool is_up(Clock::time_point now) const;
  // When it may be asked again at the latest.
  std::int64_t rests_until() const { return rests_until_.load(std::memory_order_relaxed); }

  // A request went well, or did not. Who fails too often in a row rests, and each time longer.
  void note_success();
  void note_failure(ServerFailure failure, Clock::time_point now);
  // What active checks have found.
  void note_check(bool good);

  std::atomic<int> in_flight{0};

 private:
  void set_up(bool up);

  static constexpr int kLongestRest = 8;  // times the first

  const Upstream upstream_;
  const net::Address address_;
  const Health health_;
  ServerCounts* const counts_;
  const ServerChanged changed_;

  std::atomic<bool> up_{true};
  std::atomic<int> failures_{0};  // in a row
  std::atomic<int> rest_factor_{1};
  std::atomic<std::int64_t> rests_until_{0};  // nanoseconds of the clock
  // Of active checks.
  std::atomic<bool> passes_{true};
  std::atomic<int> checks_in_a_row_{0};  // that say the opposite of `passes_`
};

// The servers of a service. Thread-safe.
class Backend {
 public:
  // Looks up the names of its servers. The error of one that there is not.
  static Result<std::shared_ptr<Backend>, Error> open(const Service& service, Counts& counts,
                                                      const ServerChanged& changed = {});

  const Service& service() const { return service_; }
  std::deque<Server>& servers() { return servers_; }
  // What to speak TLS with, to servers that want it.
  const net::TlsContext& tls() const { return tls_; }

  // Whom to send the next request; not one of `tried`, if there is another. If all rest, the one
  // that has rested for the longest time: somebody must find out that they are back.
  Server& choose(std::span<Server* const> tried);

 private:
  explicit Backend(Service service) : service_(std::move(service)) {}

  const Service service_;
  net::TlsContext tls_;
  std::deque<Server> servers_;
  std::atomic<std::uint64_t> turn_{0};
};

}  // namespace weir::gateway
