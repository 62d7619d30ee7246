#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "wire/exposition.h"

namespace weir::gateway {

// A histogram of durations. Thread-safe.
class GatewayHistogram {
 public:
  // Upper bounds of the buckets, in seconds.
  static constexpr std::array kBounds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                      0.1,   0.25,   0.5,   1.0,  2.5,   10.0};

  void add(std::chrono::nanoseconds time) noexcept;
  // Appends samples to the metric family that was begun last, with one label.
  void append_to(wire::Exposition& to, std::string_view label, std::string_view value) const;

 private:
  std::array<std::atomic<std::uint64_t>, kBounds.size() + 1> counts_{};
  std::atomic<std::uint64_t> nanos_{0};
};

// The decision of a route's limits.
enum class RouteDecision : std::uint8_t {
  unlimited,  // no limit applied: the route has none, or the key is empty and that is allowed
  allowed,
  refused,
  empty_key,  // refused: the key is empty
  degraded,   // the store was unreachable; allowed or refused by on_store_failure
  failed,     // no decision: an error
};
inline constexpr std::array<std::string_view, 6> kRouteDecisionNames{
    "unlimited", "allowed", "refused", "empty_key", "degraded", "failed"};

struct RouteMetrics {
  std::array<std::atomic<std::uint64_t>, 5> responses{};  // by status class
  std::atomic<std::uint64_t> abandoned{0};                // the client closed first (499)
  std::array<std::atomic<std::uint64_t>, kRouteDecisionNames.size()> decisions{};
  std::atomic<std::int64_t> in_flight{0};
  std::atomic<std::int64_t> queued{0};  // admitted, waiting for their turn
  std::atomic<std::uint64_t> queue_overflows{0};
  GatewayHistogram queue_times{};  // time in the queue
  GatewayHistogram times{};        // from the request head to the end of the response
};

enum class UpstreamFailure : std::uint8_t {
  connect,  // refused, unreachable or timed out
  reset,    // closed before the response was complete
  timeout,  // silent for longer than the read timeout
  garbage,  // the response was not valid HTTP
};
inline constexpr std::array<std::string_view, 4> kUpstreamFailureNames{"connect", "reset",
                                                                       "timeout", "garbage"};

struct UpstreamMetrics {
  std::atomic<std::uint64_t> requests{0};
  std::array<std::atomic<std::uint64_t>, kUpstreamFailureNames.size()> failures{};
  std::atomic<std::uint64_t> retries{0};      // requests that were retried on another server
  std::atomic<std::uint64_t> connections{0};  // opened
  std::atomic<std::uint64_t> ejections{0};
  std::atomic<bool> up{true};
  GatewayHistogram times{};  // from sending the request to the response head
};

// All counters of a gateway. Counters of routes and servers that a reload removes are kept.
// Thread-safe.
class GatewayMetrics {
 public:
  RouteMetrics& route(const std::string& name);
  UpstreamMetrics& server(const std::string& name);

  std::atomic<std::uint64_t> unrouted{0};  // no route matches (404), or the path is ambiguous (400)
  std::atomic<std::uint64_t> malformed{0};  // requests refused as malformed
  std::atomic<std::uint64_t> tunnels{0};    // upgraded connections, in total
  std::atomic<std::uint64_t> unlogged{0};   // access log lines dropped because the buffer was full

  void append_to(wire::Exposition& to) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<RouteMetrics>> routes_;
  std::map<std::string, std::unique_ptr<UpstreamMetrics>> servers_;
};

}  // namespace weir::gateway
