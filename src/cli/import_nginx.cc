#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/ascii.h"
#include "cli/import.h"
#include "cli/nginx_limits.h"
#include "cli/nginx_routes.h"
#include "cli/nginx_skipped.h"

namespace weir::cli {

namespace {

constexpr std::string_view kPoliciesHead =
    "# Policies with the limits of {}.\n"
    "#\n"
    "# nginx can use them with auth_request: write a location with\n"
    "#   proxy_pass http://127.0.0.1:7380/v1/auth?policy=NAME&deny=403;\n"
    "# and a header for each variable under `by`, such as\n"
    "#   proxy_set_header X-Weir-Part-remote_addr $remote_addr;\n"
    "# deny=403, because auth_request of nginx passes on only 401 and 403, and turns any other "
    "status\n"
    "# into 500. `error_page 403 = @limited;` then sets the status that clients see: 429, or the\n"
    "# status that nginx used before. docs/recipes/nginx.md has a complete configuration.\n"
    "# Any other program can call take, with a part for each variable. Differences:\n";

constexpr std::string_view kWaits =
    "# - limit_req with a burst and without nodelay delays requests that arrive early. "
    "auth_request\n"
    "#   cannot delay: /v1/auth answers at once, and reports the delay in Weir-Wait-Ms. The same\n"
    "#   requests are allowed and refused, but without delay, as with nodelay. weir's gateway "
    "delays\n"
    "#   them (weir import nginx --gateway).\n";

constexpr std::string_view kOfPolicies =
    "# - nginx does not limit requests with an empty key; here a missing or empty part is an "
    "error,\n"
    "#   unless the query has missing=skip: then the limits that count by it are left out.\n"
    "# - limit_conn becomes `concurrent`: callers enter and leave, and a permit that is not "
    "returned\n"
    "#   expires after 60 s. auth_request, which can only take, cannot use such policies.\n";

constexpr std::string_view kGatewayHead =
    "# A gateway with the limits and routes of {}. Differences:\n"
    "# - IPv6 addresses are counted by their first 64 bits. `ip/32/128` counts each address, like\n"
    "#   nginx.\n"
    "# - A location that ends with a slash also matches without it, where nginx redirects.\n"
    "# - At most 1000 requests wait at a route: `queue: {{ most: … }}`.\n"
    "# - Refusals have Retry-After and RateLimit headers, and an application/problem+json body.\n";

constexpr std::string_view kOfBoth =
    "# - All limits of a policy are one atomic decision. nginx, too, charges its zones only if "
    "all\n"
    "#   allow the request, but does not check the burst of earlier zones again when it charges.\n"
    "# - A zone that several blocks use has one state in nginx; here each policy has its own.\n"
    "# - Zone sizes are not needed: all keys share one table (`memory`).\n";

// The name of the part for a zone whose key has no variables.
constexpr std::string_view kOneForAll = "all_requests";

const std::vector<std::string>& parts_of(const NginxZone& zone) {
  static const std::vector<std::string> constant{std::string{kOneForAll}};
  return zone.variables.empty() ? constant : zone.variables;
}

// Collects the policies of all blocks. Blocks with the same limits share a policy.
class NginxPolicyWriter {
 public:
  explicit NginxPolicyWriter(const NginxLimits& limits) : limits_(limits) {}

  // Returns the name of the policy for a block, and adds the comment to it.
  std::string add(const NginxBlockLimits& level, const std::string& comment) {
    const auto [group, is_new] = groups_.try_emplace({level.requests.uses, level.connections.uses});
    if (is_new) {
      group->second.name = new_name(base_name(level), taken_);
      in_order_.push_back(group);
    }
    group->second.comments.push_back(comment);
    return group->second.name;
  }

  std::string text() const {
    if (in_order_.empty()) return "policies: {}\n";
    std::string text = "policies:\n";
    for (const auto& group : in_order_) text += text_of(group->first, group->second);
    return text;
  }

  // The zones of a block's limits, in their order.
  std::vector<const NginxZone*> zones_of(const NginxBlockLimits& level) const {
    return zones_of({level.requests.uses, level.connections.uses});
  }

 private:
  using Uses = std::pair<std::vector<NginxUse>, std::vector<NginxUse>>;  // limit_req, limit_conn
  struct ImportedPolicy {
    std::string name{};
    std::vector<std::string> comments{};
  };

  static std::string base_name(const NginxBlockLimits& level) {
    std::string name;
    for (const NginxLimitSet* kind : {&level.requests, &level.connections}) {
      for (const NginxUse& use : kind->uses) name += (name.empty() ? "" : "+") + use.zone;
    }
    return name;
  }

  std::vector<const NginxZone*> zones_of(const Uses& uses) const {
    std::vector<const NginxZone*> zones;
    for (const NginxUse& use : uses.first) zones.push_back(&limits_.request_zones.at(use.zone));
    for (const NginxUse& use : uses.second) zones.push_back(&limits_.connection_zones.at(use.zone));
    return zones;
  }

  std::string text_of(const Uses& uses, const ImportedPolicy& policy) const {
    std::string text;
    for (const std::string& comment : policy.comments) text += "\n  # " + in_comment(comment);
    for (const NginxZone* zone : zones_of(uses)) text += comment_of(*zone);
    text += fmt::format("\n  {}:\n    limits:\n", in_yaml(policy.name));
    for (const NginxUse& use : uses.first) {
      const NginxZone& zone = limits_.request_zones.at(use.zone);
      const std::string rate = fmt::format("{}{}", zone.count, zone.seconds == 60 ? "/min" : "/s");
      text += limit_text(fmt::format("{} {}, like: nginx", rate, use.words), use.zone, zone, use);
    }
    for (const NginxUse& use : uses.second) {
      text += limit_text(use.words, "conn:" + use.zone, limits_.connection_zones.at(use.zone), use);
    }
    return text;
  }

  static std::string comment_of(const NginxZone& zone) {
    if (zone.variables.empty()) {
      return fmt::format("\n  # The key {} is the same for all requests, and so is the part {}.",
                         in_comment(zone.key), kOneForAll);
    }
    if (!zone.has_literals) return {};
    return fmt::format("\n  # The key is {}: only its variables become parts.",
                       in_comment(zone.key));
  }

  static std::string limit_text(std::string_view limit, const std::string& name,
                                const NginxZone& zone, const NginxUse& use) {
    std::vector<std::string> by;
    for (const std::string& part : parts_of(zone)) by.push_back(in_yaml(part));
    return fmt::format("      - {{ limit: {}, name: {}, by: [{}]{} }}\n", limit, in_yaml(name),
                       fmt::join(by, ", "), use.dry_run ? ", shadow: true" : "");
  }

  const NginxLimits& limits_;
  std::map<Uses, ImportedPolicy> groups_;
  std::vector<std::map<Uses, ImportedPolicy>::const_iterator> in_order_;
  std::set<std::string> taken_;
};

// A comment with the statuses of nginx's refusals in a block.
std::string refusal_of(const NginxBlockLimits& level) {
  const std::string& requests = level.requests.status;
  const std::string& connections = level.connections.status;
  if (level.requests.uses.empty()) return "nginx refuses with " + connections;
  const bool differs = !level.connections.uses.empty() && connections != requests;
  return fmt::format("nginx refuses with {}{}", requests,
                     differs ? "; limit_conn with " + connections : "");
}

// ---- Routes

// A name from the host and the path. Names of routes consist of letters, digits, dots, - and _.
std::string route_name(const NginxRoute& route) {
  constexpr std::size_t max_size = 80;
  std::string text = (route.hosts.empty() ? "" : route.hosts.front()) + route.path;
  std::string name;
  for (const char c : text) {
    const bool is_plain = is_letter(c) || is_digit(c) || c == '.' || c == '-' || c == '_';
    if (is_plain) {
      name += c;
    } else if (!name.empty() && !name.ends_with('_')) {
      name += '_';
    }
  }
  while (name.ends_with('_')) name.pop_back();
  return name.empty() ? "all" : name.substr(0, max_size);
}

std::string in_list(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(in_yaml(text));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

// The longest delay under the limits of a block, in seconds.
std::int64_t longest_wait(const NginxBlockLimits& level, const NginxLimits& limits) {
  std::int64_t longest = 0;
  for (const NginxUse& use : level.requests.uses) {
    const NginxZone& zone = limits.request_zones.at(use.zone);
    // nginx counts in thousandths of a request per second, rounded down.
    const std::int64_t rate = std::max<std::int64_t>(1, zone.count * 1000 / zone.seconds);
    longest = std::max(longest, (use.waiting * 1000 + rate - 1) / rate);
  }
  return longest;
}

// Writes the routes, and the policies that they name.
class GatewayWriter {
 public:
  GatewayWriter(const NginxConfig& config, const NginxLimits& limits, NginxGateway& gateway)
      : config_(config), limits_(limits), gateway_(gateway), policies_(limits) {}

  std::string write() {
    std::string routes;
    for (const NginxRoute& route : gateway_.routes) routes += text_of(route);
    std::string text = policies_.text() + "\ngateway:\n";
    text += fmt::format("  listen: {}\n", in_yaml(gateway_.listen));
    if (!gateway_.trusted_proxies.empty()) {
      text += fmt::format("  trusted_proxies: {}\n  client_from: x-forwarded-for\n",
                          in_list(gateway_.trusted_proxies));
    }
    return text + "  routes:\n" + routes;
  }

 private:
  std::string text_of(const NginxRoute& route) {
    const std::string where = fmt::format("{}: {}", config_.where(route.position), route.where);
    std::string text = fmt::format("    # {}\n    - name: {}\n", in_comment(where),
                                   in_yaml(new_name(route_name(route), taken_)));
    const std::string hosts =
        route.hosts.empty() ? "" : fmt::format("host: {}, ", in_list(route.hosts));
    text += fmt::format("      match: {{ {}path: {} }}\n", hosts, in_yaml(route.path));
    text += fmt::format("      upstream: {}\n", in_list(route.servers));
    if (route.least_connections) text += "      balance: least_connections\n";
    if (!route.keeps_host) text += "      upstream_host: upstream\n";
    if (route.level->has_limits()) text += limits_of(route, where);
    return text;
  }

  std::string limits_of(const NginxRoute& route, const std::string& where) {
    const NginxBlockLimits& level = *route.level;
    std::string text = fmt::format("      policy: {}\n", in_yaml(policies_.add(level, where)));
    text += fmt::format("      parts: {{ {} }}\n", fmt::join(parts_with_sources(route), ", "));
    text += empty_key_of(route);
    const std::int64_t wait = longest_wait(level, limits_);
    constexpr std::int64_t default_longest = 30;  // of `queue`, in seconds
    if (wait > default_longest) text += fmt::format("      queue: {{ longest: {}s }}\n", wait);
    const std::string status = status_of(route);
    if (!status.empty()) text += fmt::format("      refused: {{ status: {} }}\n", status);
    return text;
  }

  std::vector<std::string> parts_with_sources(const NginxRoute& route) const {
    std::set<std::string> seen;
    std::vector<std::string> parts;
    for (const NginxZone* zone : policies_.zones_of(*route.level)) {
      for (const std::string& part : parts_of(*zone)) {
        if (!seen.insert(part).second) continue;
        const std::string source = zone->variables.empty()
                                       ? fmt::format("const:{}", kOneForAll)
                                       : key_source(part, route.server_name).value();
        parts.push_back(fmt::format("{}: {}", in_yaml(part), in_yaml(source)));
      }
    }
    return parts;
  }

  // nginx does not apply a zone to a request whose key is empty. `empty_key: allow` leaves out a
  // limit if any of its parts is missing: that is the same only for a key of a single variable.
  std::string empty_key_of(const NginxRoute& route) {
    const std::vector<const NginxZone*> zones = policies_.zones_of(*route.level);
    const auto is_optional = [](const NginxZone* zone) {
      return std::ranges::any_of(zone->variables, may_be_empty);
    };
    if (std::ranges::none_of(zones, is_optional)) return {};
    const bool has_same_meaning = std::ranges::all_of(zones, [&](const NginxZone* zone) {
      return !is_optional(zone) || (zone->variables.size() == 1 && !zone->has_literals);
    });
    if (has_same_meaning) return "      empty_key: allow\n";
    gateway_.skipped.push_back(
        {route.position, "requests without a part of their key",
         "nginx counts them by the rest of the key; the gateway refuses them with 403 "
         "(`empty_key`)"});
    return {};
  }

  std::string status_of(const NginxRoute& route) {
    const NginxBlockLimits& level = *route.level;
    const bool has_requests = !level.requests.uses.empty();
    const std::string& status = has_requests ? level.requests.status : level.connections.status;
    if (has_requests && !level.connections.uses.empty() && level.connections.status != status) {
      gateway_.skipped.push_back(
          {route.position, "limit_conn_status " + level.connections.status,
           "a route has one status for refusals: that of limit_req is used"});
    }
    if (status != "444") return status;
    gateway_.skipped.push_back({route.position, "status 444",
                                "the gateway always answers refused requests: with 429 here"});
    return {};
  }

  const NginxConfig& config_;
  const NginxLimits& limits_;
  NginxGateway& gateway_;
  NginxPolicyWriter policies_;
  std::set<std::string> taken_;  // names of routes
};

// ---- Files

std::string skipped_comment(const NginxConfig& config, std::vector<NginxSkipped> all) {
  if (all.empty()) return {};
  std::ranges::stable_sort(all, {}, [](const NginxSkipped& each) {
    return std::pair{each.position.file, each.position.place.line};
  });
  std::string text = "#\n# Not imported:\n";
  // A file may be included several times, and a location may have two routes: list each line once.
  std::set<std::string> lines;
  for (const NginxSkipped& each : all) {
    const std::string line =
        fmt::format("# - {}: {}: {}\n", in_comment(config.where(each.position)),
                    in_comment(each.what), in_comment(each.why));
    if (lines.insert(line).second) text += line;
  }
  return text;
}

std::string write_policies(const NginxConfig& config, const NginxLimits& limits) {
  NginxPolicyWriter policies(limits);
  bool waits = false;
  for (const NginxBlockLimits& block : limits.changed_blocks) {
    const std::string where = block.where.empty() ? "http" : block.where;
    policies.add(block, fmt::format("{}; {}", where, refusal_of(block)));
    waits = waits || block.waits();
  }
  std::string text =
      fmt::format(fmt::runtime(kPoliciesHead), in_comment(config.files.front().name));
  if (waits) text += kWaits;
  text += kOfPolicies;
  text += kOfBoth;
  text += skipped_comment(config, skipped_in(config, limits, NginxTarget::policies));
  return text + policies.text();
}

std::string write_gateway(NginxConfig& config, NginxLimits& limits) {
  std::vector<NginxSkipped> skipped = skipped_in(config, limits, NginxTarget::gateway);
  NginxGateway gateway = read_gateway(config, limits);
  if (gateway.routes.empty()) {
    config.add_problem({},
                       "no location of a server has a proxy_pass that can be imported: there is "
                       "nothing for a gateway to do");
    return {};
  }
  const std::string body = GatewayWriter(config, limits, gateway).write();
  std::ranges::move(gateway.skipped, std::back_inserter(skipped));
  std::string text = fmt::format(fmt::runtime(kGatewayHead), in_comment(config.files.front().name));
  text += kOfBoth;
  return text + skipped_comment(config, std::move(skipped)) + body;
}

template <typename Write>
ImportResult import(const policy::Source& source, Write write) {
  NginxConfig config = read_nginx(source);
  std::string text;
  if (config.problems.empty()) {
    NginxLimits limits = read_limits(config);
    if (config.problems.empty()) text = write(config, limits);
  }
  return {.text = std::move(text), .problems = std::move(config.problems)};
}

}  // namespace

ImportResult import_nginx(const policy::Source& source) { return import(source, write_policies); }

ImportResult import_nginx_gateway(const policy::Source& source) {
  return import(source, write_gateway);
}

}  // namespace weir::cli
