#include "gateway/counts.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::gateway {

namespace {

constexpr std::array<std::string_view, 5> kClasses{"1xx", "2xx", "3xx", "4xx", "5xx"};

template <typename Map>
auto& found_or_made(Map& map, const std::string& name) {
  auto& place = map[name];
  if (!place) place = std::make_unique<typename Map::mapped_type::element_type>();
  return *place;
}

}  // namespace

void Durations::add(std::chrono::nanoseconds time) noexcept {
  const double seconds = std::chrono::duration<double>(time).count();
  const auto bound = std::ranges::lower_bound(kBounds, seconds) - kBounds.begin();
  counts_[static_cast<std::size_t>(bound)].fetch_add(1, std::memory_order_relaxed);
  nanos_.fetch_add(static_cast<std::uint64_t>(time.count()), std::memory_order_relaxed);
}

void Durations::append_to(wire::Exposition& to, std::string_view label,
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

RouteCounts& Counts::route(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return found_or_made(routes_, name);
}

ServerCounts& Counts::server(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return found_or_made(servers_, name);
}

void Counts::append_to(wire::Exposition& to) const {
  const std::lock_guard lock(mutex_);
  to.counter("weir_gateway_requests_total", "Requests that were answered, by status.");
  for (const auto& [name, counts] : routes_) {
    for (std::size_t i = 0; i < kClasses.size(); ++i) {
      to.sample({{"route", name}, {"status", kClasses[i]}}, counts->answers[i].load());
    }
  }
  to.counter("weir_gateway_abandoned_total", "Requests whose client did not wait for the answer.");
  for (const auto& [name, counts] : routes_) to.sample({{"route", name}}, counts->abandoned.load());
  to.counter("weir_gateway_decisions_total", "What the limits of a route had to say.");
  for (const auto& [name, counts] : routes_) {
    for (std::size_t i = 0; i < kRulingNames.size(); ++i) {
      to.sample({{"route", name}, {"decision", kRulingNames[i]}}, counts->rulings[i].load());
    }
  }
  to.gauge("weir_gateway_in_flight", "Requests in progress.");
  for (const auto& [name, counts] : routes_) to.sample({{"route", name}}, counts->in_flight.load());
  to.gauge("weir_gateway_queued", "Of these, waiting for their turn.");
  for (const auto& [name, counts] : routes_) to.sample({{"route", name}}, counts->queued.load());
  to.counter("weir_gateway_queue_overflows_total",
             "Refused because too many were waiting, or the turn would come too late.");
  for (const auto& [name, counts] : routes_) {
    to.sample({{"route", name}}, counts->queue_overflows.load());
  }
  to.histogram("weir_gateway_wait_seconds", "How long requests waited for their turn.");
  for (const auto& [name, counts] : routes_) counts->waits.append_to(to, "route", name);
  to.histogram("weir_gateway_seconds", "From the head of a request to the end of its answer.");
  for (const auto& [name, counts] : routes_) counts->times.append_to(to, "route", name);
  to.counter("weir_gateway_unrouted_total", "Requests that no route is for.");
  to.sample(unrouted.load());
  to.counter("weir_gateway_malformed_total", "Requests that could not be read, and were refused.");
  to.sample(malformed.load());
  to.counter("weir_gateway_tunnels_total",
             "Connections that were upgraded: WebSockets and others.");
  to.sample(tunnels.load());
  to.counter("weir_gateway_unlogged_total",
             "Lines of access_log that were lost: it could not be written fast enough.");
  to.sample(unlogged.load());

  to.counter("weir_upstream_requests_total", "Requests that were sent to a server.");
  for (const auto& [name, counts] : servers_)
    to.sample({{"server", name}}, counts->requests.load());
  to.counter("weir_upstream_failures_total", "Of these, without an answer, or without all of it.");
  for (const auto& [name, counts] : servers_) {
    for (std::size_t i = 0; i < kServerFailureNames.size(); ++i) {
      to.sample({{"server", name}, {"kind", kServerFailureNames[i]}}, counts->failures[i].load());
    }
  }
  to.counter("weir_upstream_retries_total", "Requests that were sent again after it had failed.");
  for (const auto& [name, counts] : servers_) to.sample({{"server", name}}, counts->retries.load());
  to.counter("weir_upstream_connections_total", "Connections that were made to a server.");
  for (const auto& [name, counts] : servers_) {
    to.sample({{"server", name}}, counts->connections.load());
  }
  to.counter("weir_upstream_ejections_total", "How often it was given a rest after failures.");
  for (const auto& [name, counts] : servers_)
    to.sample({{"server", name}}, counts->ejections.load());
  to.gauge("weir_upstream_up", "0: it fails its checks, or rests, and gets nothing.");
  for (const auto& [name, counts] : servers_) to.sample({{"server", name}}, counts->up ? 1 : 0);
  to.histogram("weir_upstream_seconds", "From sending a request to the head of the answer.");
  for (const auto& [name, counts] : servers_) counts->times.append_to(to, "server", name);
}

}  // namespace weir::gateway
