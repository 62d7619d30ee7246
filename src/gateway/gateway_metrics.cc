#include "gateway/gateway_metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::gateway {

namespace {

constexpr std::array<std::string_view, 5> kClasses{"1xx", "2xx", "3xx", "4xx", "5xx"};

template <typename Map>
auto& find_or_make(Map& map, const std::string& name) {
  auto& entry = map[name];
  if (!entry) entry = std::make_unique<typename Map::mapped_type::element_type>();
  return *entry;
}

}  // namespace

void GatewayHistogram::add(std::chrono::nanoseconds time) noexcept {
  const double seconds = std::chrono::duration<double>(time).count();
  const auto bound = std::ranges::lower_bound(kBounds, seconds) - kBounds.begin();
  counts_[static_cast<std::size_t>(bound)].fetch_add(1, std::memory_order_relaxed);
  nanos_.fetch_add(static_cast<std::uint64_t>(time.count()), std::memory_order_relaxed);
}

void GatewayHistogram::append_to(wire::Exposition& to, std::string_view label,
                                 std::string_view value) const {
  std::uint64_t so_far = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    so_far += counts_[i].load(std::memory_order_relaxed);
    const auto bound = i < kBounds.size() ? fmt::format("{}", kBounds[i]) : "+Inf";
    to.sample({{label, value}, {"le", bound}}, so_far, "_bucket");
  }
  to.sample({{label, value}}, static_cast<double>(nanos_.load(std::memory_order_relaxed)) / 1e9,
            "_sum");
  to.sample({{label, value}}, so_far, "_count");
}

RouteMetrics& GatewayMetrics::route(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return find_or_make(routes_, name);
}

UpstreamMetrics& GatewayMetrics::server(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return find_or_make(servers_, name);
}

void GatewayMetrics::append_to(wire::Exposition& to) const {
  const std::lock_guard lock(mutex_);
  to.counter("weir_gateway_requests_total", "Requests answered, by status class.");
  for (const auto& [name, counts] : routes_) {
    for (std::size_t i = 0; i < kClasses.size(); ++i) {
      to.sample({{"route", name}, {"status", kClasses[i]}}, counts->responses[i].load());
    }
  }
  to.counter("weir_gateway_abandoned_total",
             "Requests whose client disconnected before the response.");
  for (const auto& [name, counts] : routes_) to.sample({{"route", name}}, counts->abandoned.load());
  to.counter("weir_gateway_decisions_total", "Decisions of the limits of a route.");
  for (const auto& [name, counts] : routes_) {
    for (std::size_t i = 0; i < kRouteDecisionNames.size(); ++i) {
      to.sample({{"route", name}, {"decision", kRouteDecisionNames[i]}},
                counts->decisions[i].load());
    }
  }
  to.gauge("weir_gateway_in_flight", "Requests in progress.");
  for (const auto& [name, counts] : routes_) to.sample({{"route", name}}, counts->in_flight.load());
  to.gauge("weir_gateway_queued", "Requests in progress that wait in a queue.");
  for (const auto& [name, counts] : routes_) to.sample({{"route", name}}, counts->queued.load());
  to.counter("weir_gateway_queue_overflows_total",
             "Requests refused because the queue was full or the wait would be too long.");
  for (const auto& [name, counts] : routes_) {
    to.sample({{"route", name}}, counts->queue_overflows.load());
  }
  to.histogram("weir_gateway_wait_seconds", "Time that requests waited in a queue.");
  for (const auto& [name, counts] : routes_) counts->queue_times.append_to(to, "route", name);
  to.histogram("weir_gateway_seconds",
               "Time from the head of a request to the end of its response.");
  for (const auto& [name, counts] : routes_) counts->times.append_to(to, "route", name);
  to.counter("weir_gateway_unrouted_total",
             "Requests without a matching route, or with an ambiguous path.");
  to.sample(unrouted.load());
  to.counter("weir_gateway_malformed_total", "Requests refused as malformed.");
  to.sample(malformed.load());
  to.counter("weir_gateway_tunnels_total", "Upgraded connections: WebSocket and others.");
  to.sample(tunnels.load());
  to.counter("weir_gateway_unlogged_total",
             "Access log lines dropped because the log could not be written fast enough.");
  to.sample(unlogged.load());

  to.counter("weir_upstream_requests_total", "Requests sent to a server.");
  for (const auto& [name, counts] : servers_)
    to.sample({{"server", name}}, counts->requests.load());
  to.counter("weir_upstream_failures_total",
             "Requests to a server that failed, by kind of failure.");
  for (const auto& [name, counts] : servers_) {
    for (std::size_t i = 0; i < kUpstreamFailureNames.size(); ++i) {
      to.sample({{"server", name}, {"kind", kUpstreamFailureNames[i]}}, counts->failures[i].load());
    }
  }
  to.counter("weir_upstream_retries_total", "Requests retried after this server failed.");
  for (const auto& [name, counts] : servers_) to.sample({{"server", name}}, counts->retries.load());
  to.counter("weir_upstream_connections_total", "Connections opened to a server.");
  for (const auto& [name, counts] : servers_) {
    to.sample({{"server", name}}, counts->connections.load());
  }
  to.counter("weir_upstream_ejections_total",
             "How often a server was ejected after failures in a row.");
  for (const auto& [name, counts] : servers_)
    to.sample({{"server", name}}, counts->ejections.load());
  to.gauge("weir_upstream_up", "1: in rotation; 0: ejected, or failing its health checks.");
  for (const auto& [name, counts] : servers_) to.sample({{"server", name}}, counts->up ? 1 : 0);
  to.histogram("weir_upstream_seconds", "Time from sending a request to the head of its response.");
  for (const auto& [name, counts] : servers_) counts->times.append_to(to, "server", name);
}

}  // namespace weir::gateway
