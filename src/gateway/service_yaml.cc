#include "gateway/service_yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "gateway/path.h"
#include "gateway/yaml_values.h"
#include "policy/endpoint.h"
#include "policy/values.h"

namespace weir::gateway {

namespace {

using policy::in_quotes;

constexpr std::array<std::string_view, 2> kBalances{"round_robin", "least_connections"};
constexpr std::array<std::string_view, 3> kTimeouts{"connect", "read", "total"};
constexpr std::array<std::string_view, 2> kHealth{"passive", "active"};
constexpr std::array<std::string_view, 2> kPassive{"failures", "for"};
constexpr std::array<std::string_view, 6> kActive{"path",    "every",     "timeout",
                                                  "healthy", "unhealthy", "status"};
constexpr int kMaxInARow = 1'000;
constexpr int kMaxRetries = 10;

bool has_port(std::string_view authority) {
  const std::size_t bracket = authority.rfind(']');
  const std::size_t colon = authority.rfind(':');
  return colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
}

std::optional<Upstream> read_upstream(const YamlNode& node, Problems& problems) {
  constexpr std::string_view http = "http://";
  constexpr std::string_view https = "https://";
  const auto wrong = [&](std::string message) {
    problems.push_back({node.place, std::move(message)});
    return std::nullopt;
  };
  Upstream upstream{.text = node.text};
  std::string_view rest = node.text;
  upstream.tls = rest.starts_with(https);
  if (!upstream.tls && !rest.starts_with(http)) {
    return wrong(fmt::format("\"upstream\" is http://host:port or https://host:port, not {}",
                             in_quotes(node.text)));
  }
  const std::size_t scheme = (upstream.tls ? https : http).size();
  rest.remove_prefix(scheme);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.find_first_of("/?#@") != std::string_view::npos) {
    return wrong(
        "\"upstream\" is a host and a port without path or user: requests keep their own path");
  }
  const std::string authority =
      has_port(rest) ? std::string{rest} : fmt::format("{}:{}", rest, upstream.tls ? 443 : 80);
  const auto endpoint = policy::parse_endpoint(authority, node.text_place().moved(scheme));
  if (!endpoint) {
    problems.push_back(endpoint.error());
    return std::nullopt;
  }
  if (endpoint->port == 0)
    return wrong("no server listens on port 0: write the port of the service");
  upstream.host = endpoint->host;
  upstream.port = endpoint->port;
  return upstream;
}

void read_timeouts(const YamlNode& node, UpstreamTimeouts& timeouts, Problems& problems) {
  if (!policy::is_map_of(node, "timeouts", kTimeouts, problems)) return;
  if (const YamlNode* field = node.find("connect")) {
    read_time(*field, "connect", MayBeOff::no, timeouts.connect, problems);
  }
  if (const YamlNode* field = node.find("read")) {
    read_time(*field, "read", MayBeOff::yes, timeouts.read, problems);
  }
  if (const YamlNode* field = node.find("total")) {
    read_time(*field, "total", MayBeOff::yes, timeouts.total, problems);
  }
}

// Reads 200 or 200-299.
void read_statuses(const YamlNode& node, HealthCheckConfig::Active& active, Problems& problems) {
  const std::string_view text = node.is_scalar() ? std::string_view{node.text} : std::string_view{};
  const std::size_t dash = std::min(text.find('-'), text.size());
  const auto read = [](std::string_view digits, int& into) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), into);
    return error == std::errc{} && end == digits.data() + digits.size() && into >= 100 &&
           into <= 599;
  };
  int min = 0, max = 0;
  const bool valid = read(text.substr(0, dash), min) &&
                     (dash == text.size() ? read(text, max) : read(text.substr(dash + 1), max));
  if (!valid || min > max) {
    problems.push_back(
        {node.place,
         fmt::format("\"status\" is the status of a healthy response, like 200 or 200-299, not {}",
                     node.describe())});
    return;
  }
  active.min_status = min;
  active.max_status = max;
}

void read_passive(const YamlNode& node, HealthCheckConfig& health, Problems& problems) {
  if (node.is_scalar() && node.text == "off") {
    health.passive = std::nullopt;
    return;
  }
  if (!policy::is_map_of(node, "passive", kPassive, problems)) return;
  HealthCheckConfig::Passive passive;
  if (const YamlNode* field = node.find("failures")) {
    read_number(*field, "failures", {1, kMaxInARow}, passive.failures, problems);
  }
  if (const YamlNode* field = node.find("for")) {
    read_time(*field, "for", MayBeOff::no, passive.ejection_time, problems);
  }
  health.passive = passive;
}

void read_check_path(const YamlNode& node, HealthCheckConfig::Active& active, Problems& problems) {
  active.path = policy::read_text(node, "path", problems);
  const bool clean = active.path.starts_with('/') && is_field_value(active.path) &&
                     active.path.find(' ') == std::string::npos;
  if (active.path.empty() || clean) return;
  problems.push_back(
      {node.place, fmt::format("a path starts with a slash and has no spaces, not {}",
                               in_quotes(active.path))});
}

void read_active(const YamlNode& node, HealthCheckConfig& health, Problems& problems) {
  if (node.is_scalar() && node.text == "off") {
    health.active = std::nullopt;
    return;
  }
  HealthCheckConfig::Active active;
  if (node.is_scalar()) {
    read_check_path(node, active, problems);
    health.active = active;
    return;
  }
  if (!policy::is_map_of(node, "active", kActive, problems)) return;
  if (const YamlNode* field = node.find("path")) {
    read_check_path(*field, active, problems);
  } else {
    problems.push_back({node.place, "\"active\" needs a path: write path: /healthz"});
  }
  if (const YamlNode* field = node.find("every")) {
    read_time(*field, "every", MayBeOff::no, active.every, problems);
  }
  if (const YamlNode* field = node.find("timeout")) {
    read_time(*field, "timeout", MayBeOff::no, active.timeout, problems);
  }
  if (const YamlNode* field = node.find("healthy")) {
    read_number(*field, "healthy", {1, kMaxInARow}, active.healthy, problems);
  }
  if (const YamlNode* field = node.find("unhealthy")) {
    read_number(*field, "unhealthy", {1, kMaxInARow}, active.unhealthy, problems);
  }
  if (const YamlNode* field = node.find("status")) read_statuses(*field, active, problems);
  health.active = active;
}

void read_health(const YamlNode& node, HealthCheckConfig& health, Problems& problems) {
  if (node.is_scalar() && node.text == "off") {
    health = {.passive = std::nullopt, .active = std::nullopt};
    return;
  }
  if (!policy::is_map_of(node, "health", kHealth, problems)) return;
  if (const YamlNode* field = node.find("passive")) read_passive(*field, health, problems);
  if (const YamlNode* field = node.find("active")) read_active(*field, health, problems);
}

}  // namespace

std::vector<Upstream> read_upstreams(const YamlNode& node, Problems& problems) {
  std::vector<Upstream> servers;
  for (const YamlNode* item : one_or_more(node, "upstream", problems)) {
    if (auto upstream = read_upstream(*item, problems)) servers.push_back(*std::move(upstream));
  }
  return servers;
}

void read_service(const YamlNode& map, ServiceConfig& service, Problems& problems) {
  if (const YamlNode* node = map.find("balance")) {
    service.balance =
        static_cast<LoadBalancing>(policy::read_word(*node, "balance", kBalances, problems));
  }
  if (const YamlNode* node = map.find("timeouts")) read_timeouts(*node, service.timeouts, problems);
  if (const YamlNode* node = map.find("retries")) {
    read_number(*node, "retries", {0, kMaxRetries}, service.retries, problems);
  }
  if (const YamlNode* node = map.find("health")) read_health(*node, service.health, problems);
  if (const YamlNode* node = map.find("idle_connections")) {
    read_number(*node, "idle_connections", {0, 1'000'000}, service.idle_connections, problems);
  }
}

}  // namespace weir::gateway
