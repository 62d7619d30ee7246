#include "cli/nginx_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "base/ascii.h"

namespace weir::cli {

namespace {

using Directives = std::vector<NginxDirective>;

const NginxDirective* find(const Directives& directives, std::string_view name) {
  const auto found = std::ranges::find(directives, name, &NginxDirective::name);
  return found == directives.end() ? nullptr : &*found;
}

// ---- Directives that the gateway does not support

constexpr std::string_view kAccess =
    "restricts access, which the gateway does not: do it before the gateway or in the service";
constexpr std::string_view kRewrite = "the gateway does not rewrite URLs or answer by itself";
constexpr std::string_view kTimeouts = "write `timeouts` in the route";
constexpr std::string_view kTls = "write `tls: { cert: …, key: … }` under `gateway`";
constexpr std::string_view kOther =
    "the gateway has no such setting, or its own (see docs/policy-file.md)";

// Directives that are reported in any block.
constexpr std::array<std::pair<std::string_view, std::string_view>, 22> kReasons{{
    {"allow", kAccess},
    {"deny", kAccess},
    {"satisfy", kAccess},
    {"auth_basic", kAccess},
    {"auth_jwt", kAccess},
    {"auth_request", kAccess},
    {"limit_except", kAccess},
    {"valid_referers", kAccess},
    {"return", kRewrite},
    {"rewrite", kRewrite},
    {"proxy_redirect", kRewrite},
    {"sub_filter", kRewrite},
    {"if", kRewrite},
    {"proxy_connect_timeout", kTimeouts},
    {"proxy_read_timeout", kTimeouts},
    {"proxy_send_timeout", kTimeouts},
    {"client_max_body_size", "write `max_body` in the route"},
    {"proxy_next_upstream", "write `retries` in the route"},
    {"ssl_certificate", kTls},
    {"ssl_certificate_key", kTls},
    {"ssl_client_certificate", "write `tls: { ca: … }` under `gateway`"},
    {"proxy_cache", "the gateway does not cache"},
}};

// Directives that are not reported here: the import converts them, reports them elsewhere, or they
// do not matter to clients.
constexpr std::array<std::string_view, 26> kSilent{"listen",
                                                   "server_name",
                                                   "location",
                                                   "proxy_pass",
                                                   "include",
                                                   "error_page",
                                                   "access_log",
                                                   "error_log",
                                                   "server_tokens",
                                                   "proxy_http_version",
                                                   "proxy_set_header",
                                                   "set_real_ip_from",
                                                   "real_ip_header",
                                                   "real_ip_recursive",
                                                   "proxy_buffering",
                                                   "proxy_buffers",
                                                   "proxy_buffer_size",
                                                   "limit_req",
                                                   "limit_conn",
                                                   "limit_req_status",
                                                   "limit_conn_status",
                                                   "limit_req_dry_run",
                                                   "limit_conn_dry_run",
                                                   "limit_rate",
                                                   "limit_rate_after",
                                                   "internal"};

bool is_silent(std::string_view name) {
  return std::ranges::find(kSilent, name) != kSilent.end() || name.ends_with("_log_level") ||
         name.ends_with("_limit_rate");
}

std::string_view reason_of(std::string_view name) {
  const auto known =
      std::ranges::find(kReasons, name, &std::pair<std::string_view, std::string_view>::first);
  return known == kReasons.end() ? std::string_view{} : known->second;
}

// ---- Addresses

// A `listen` directive of a server.
struct NginxListen {
  const NginxDirective* directive = nullptr;  // null: the default
  std::string host = "0.0.0.0";
  std::string port = "80";
  bool is_default = false;
  bool is_tls = false;
};

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_digit);
}

std::optional<NginxListen> read_listen(const NginxDirective& directive) {
  NginxListen listen{.directive = &directive};
  const std::string& address = directive.argument(1);
  if (address.starts_with("unix:")) return std::nullopt;
  const std::size_t bracket = address.rfind(']');
  const std::size_t colon = address.rfind(':');
  const bool has_port =
      colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  if (is_number(address)) {
    listen.port = address;
  } else {
    listen.host = has_port ? address.substr(0, colon) : address;
    if (has_port) listen.port = address.substr(colon + 1);
    if (listen.host == "*") listen.host = "0.0.0.0";
  }
  for (const NginxWord& word : directive.words) {
    listen.is_default =
        listen.is_default || word.text == "default_server" || word.text == "default";
    listen.is_tls = listen.is_tls || word.text == "ssl";
  }
  return listen;
}

std::vector<NginxListen> listens_of(const NginxDirective& server) {
  std::vector<NginxListen> all;
  for (const NginxDirective& directive : server.block) {
    if (directive.name() != "listen") continue;
    if (auto listen = read_listen(directive)) all.push_back(*std::move(listen));
  }
  if (all.empty()) all.emplace_back();
  return all;
}

// ---- Names of servers

// The server_name values of a server, by the precedence of their match.
struct NginxHosts {
  std::vector<std::string> exact{};
  std::vector<std::string> wildcards{};  // *.example.com
  std::vector<std::string> others{};     // not supported by the gateway
};

NginxHosts hosts_of(const NginxDirective& server) {
  NginxHosts hosts;
  for (const NginxDirective& directive : server.block) {
    if (directive.name() != "server_name") continue;
    for (std::size_t i = 1; i < directive.words.size(); ++i) {
      const std::string& name = directive.argument(i);
      const bool is_plain = name.find_first_of("*~$") == std::string::npos;
      if (name.empty() || name == "_") continue;
      if (name.starts_with('.') && is_plain) {
        hosts.exact.push_back(name.substr(1));
        hosts.wildcards.push_back("*" + name);
      } else if (name.starts_with("*.") && name.find_first_of("*~$", 1) == std::string::npos) {
        hosts.wildcards.push_back(name);
      } else {
        (is_plain ? hosts.exact : hosts.others).push_back(name);
      }
    }
  }
  return hosts;
}

// ---- Paths

// The path pattern of a location, if the gateway can express it.
std::optional<std::string> path_of(const NginxDirective& location) {
  const bool has_modifier = location.words.size() > 2;
  const std::string modifier = has_modifier ? location.argument(1) : "";
  const std::string& path = location.argument(has_modifier ? 2 : 1);
  const bool is_plain =
      path.starts_with('/') && path.find_first_of("*?#;%\\ ") == std::string::npos &&
      path.find("//") == std::string::npos && path.find("/.") == std::string::npos;
  if (!is_plain || (!modifier.empty() && modifier != "=" && modifier != "^~")) return std::nullopt;
  if (modifier == "=") return path;
  return path.ends_with('/') ? path + "**" : path + "*/**";
}

// ---- Locations

// Settings other than limits that a location inherits.
struct Context {
  const NginxDirective* server = nullptr;
  std::string server_name{};
  bool keeps_host = false;
};

class NginxRouteReader {
 public:
  NginxRouteReader(const NginxConfig& config, const NginxLimits& limits,
                   std::vector<NginxSkipped>& skipped)
      : limits_(limits), skipped_(skipped) {
    collect(config.directives);
  }

  NginxGateway read() && {
    NginxGateway gateway;
    read_clients(gateway);
    for (const Directives* block : http_blocks_) report_known(*block);
    read_servers();
    const auto first = std::ranges::find_if(
        servers_, [](const NginxServer& server) { return !server.routes.empty(); });
    if (first == servers_.end()) return gateway;
    const NginxListen listen = chosen_listen(first->listens);
    gateway.listen = fmt::format("{}:{}", listen.host, listen.port);
    if (listen.is_tls) {
      add(*listen.directive,
          "the gateway listens there without TLS until you write "
          "`tls: { cert: …, key: … }` under `gateway`");
    }
    keep_servers_at(listen.port);
    put_in_order(gateway.routes);
    return gateway;
  }

 private:
  struct NginxServer {
    const NginxDirective* block = nullptr;
    std::vector<NginxListen> listens{};
    NginxHosts hosts{};
    bool is_default = false;
    std::vector<NginxRoute> routes{};  // without hosts
  };

  void add(const NginxDirective& directive, std::string_view why) {
    skipped_.push_back({directive.position(), directive.text(), std::string{why}});
  }

  // A file that is meant to be included has the directives of http at its top level.
  void collect(const Directives& directives) {
    http_blocks_.push_back(&directives);
    for (const NginxDirective& directive : directives) {
      if (directive.name() == "http") {
        collect(directive.block);
      } else if (directive.name() == "server" && directive.has_block) {
        server_blocks_.push_back(&directive);
      } else if (directive.name() == "upstream") {
        upstreams_[directive.argument(1)] = &directive;
      }
    }
  }

  // ---- Client addresses

  void read_clients(NginxGateway& gateway) {
    for (const Directives* block : http_blocks_) read_clients(*block, gateway);
    for (const NginxDirective* block : server_blocks_) read_clients(block->block, gateway);
    if (trusts_proxies_ != nullptr && !names_client_header_) {
      add(*trusts_proxies_,
          "nginx reads the client address from X-Real-IP here, since there is no "
          "real_ip_header; the gateway reads X-Forwarded-For");
    }
  }

  void read_clients(const Directives& directives, NginxGateway& gateway) {
    for (const NginxDirective& directive : directives) {
      const std::string& value = directive.argument(1);
      if (directive.name() == "real_ip_header") names_client_header_ = true;
      if (directive.name() == "set_real_ip_from") {
        trusts_proxies_ = &directive;
        const bool is_address = value.find_first_not_of("0123456789abcdefABCDEF.:/") == value.npos;
        if (!is_address) {
          add(directive, "`trusted_proxies` of the gateway may hold only addresses and networks");
        } else if (std::ranges::find(gateway.trusted_proxies, value) ==
                   gateway.trusted_proxies.end()) {
          gateway.trusted_proxies.push_back(value);
        }
      } else if (directive.name() == "real_ip_header" &&
                 !same_ignoring_case(value, "X-Forwarded-For")) {
        add(directive,
            "the gateway reads the client address from X-Forwarded-For or Forwarded only");
      }
    }
  }

  // ---- Servers

  void read_servers() {
    for (const NginxDirective* block : server_blocks_) {
      NginxServer server{.block = block, .listens = listens_of(*block), .hosts = hosts_of(*block)};
      Context context{.server = block};
      for (const auto* names : {&server.hosts.exact, &server.hosts.wildcards}) {
        if (context.server_name.empty() && !names->empty()) context.server_name = names->front();
      }
      context.keeps_host = outer_keeps_host();
      read_locations(block->block, context, server.routes);
      servers_.push_back(std::move(server));
    }
  }

  bool outer_keeps_host() const {
    bool keeps = false;
    for (const Directives* block : http_blocks_) keeps = keeps_host(*block, keeps);
    return keeps;
  }

  // A block with a proxy_set_header of its own does not inherit those of the outer block.
  static bool keeps_host(const Directives& directives, bool outside) {
    if (find(directives, "proxy_set_header") == nullptr) return outside;
    return std::ranges::any_of(directives, [](const NginxDirective& directive) {
      const std::string& value = directive.argument(2);
      return directive.name() == "proxy_set_header" &&
             same_ignoring_case(directive.argument(1), "Host") &&
             (value.starts_with("$host") || value == "$http_host");
    });
  }

  static const NginxListen& chosen_listen(const std::vector<NginxListen>& listens) {
    const auto plain = std::ranges::find(listens, false, &NginxListen::is_tls);
    return plain == listens.end() ? listens.front() : *plain;
  }

  void keep_servers_at(const std::string& port) {
    const auto is_there = [&](const NginxListen& listen) { return listen.port == port; };
    std::erase_if(servers_, [&](const NginxServer& server) {
      const bool kept = std::ranges::any_of(server.listens, is_there) && !server.routes.empty();
      if (!kept) {
        const std::string why = fmt::format(
            "{}; the gateway has only one port, {}",
            server.routes.empty() ? "none of its locations can be a route" : "it listens elsewhere",
            port);
        skipped_.push_back({server.block->position(), "server", why});
      }
      return !kept;
    });
    for (const NginxServer& server : servers_) report_server(server, port);
    const auto marked = std::ranges::find_if(servers_, [&](const NginxServer& server) {
      return std::ranges::any_of(server.listens, [&](const NginxListen& listen) {
        return is_there(listen) && listen.is_default;
      });
    });
    (marked == servers_.end() ? servers_.front() : *marked).is_default = true;
  }

  void report_server(const NginxServer& server, const std::string& port) {
    report_all(server.block->block);
    for (const NginxDirective& directive : server.block->block) {
      if (directive.name() != "listen") continue;
      const auto listen = read_listen(directive);
      if (!listen || listen->port != port) {
        add(directive,
            fmt::format("the gateway has only one port, {}{}", port,
                        listen && listen->is_tls ? "; with TLS, write `tls` there" : ""));
      }
    }
    for (const std::string& name : server.hosts.others) {
      skipped_.push_back({server.block->position(), "server_name " + name,
                          "the gateway matches only full names and *.names"});
    }
  }

  // ---- Locations

  void read_locations(const Directives& directives, const Context& outer,
                      std::vector<NginxRoute>& into) {
    Context context = outer;
    context.keeps_host = keeps_host(directives, outer.keeps_host);
    for (const NginxDirective& directive : directives) {
      if (directive.name() != "location") continue;
      read_location(directive, context, into);
      read_locations(directive.block, context, into);
    }
  }

  void read_location(const NginxDirective& location, const Context& context,
                     std::vector<NginxRoute>& into) {
    if (location.argument(1).starts_with('@') || find(location.block, "internal") != nullptr) {
      return add(location, "the gateway has no internal redirects");
    }
    const auto path = path_of(location);
    if (!path) {
      return add(location,
                 "the gateway matches prefixes and whole paths, not regular expressions: "
                 "such requests go to the next route that matches");
    }
    const NginxDirective* pass = find(location.block, "proxy_pass");
    if (pass == nullptr) {
      const bool is_outer = find(location.block, "location") != nullptr;
      if (!is_outer) add(location, "has no proxy_pass, and the gateway can only proxy requests");
      return;
    }
    NginxRoute route{.position = location.position(),
                     .where = limits_.levels.at(&location).where,
                     .server_name = context.server_name,
                     .path = *path,
                     .keeps_host = keeps_host(location.block, context.keeps_host),
                     .level = &limits_.levels.at(&location)};
    if (!read_service(*pass, location.words.back().text, route)) return;
    report_all(location.block);
    into.push_back(std::move(route));
  }

  // ---- Services

  bool read_service(const NginxDirective& pass, const std::string& path, NginxRoute& route) {
    std::string_view rest = pass.argument(1);
    const std::string scheme = rest.starts_with("https://") ? "https://" : "http://";
    if (!rest.starts_with(scheme) || rest.find('$') != std::string_view::npos ||
        rest.substr(scheme.size()).starts_with("unix:")) {
      add(pass, "the gateway can proxy only to http://host:port or https://host:port");
      return false;
    }
    rest.remove_prefix(scheme.size());
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    const std::string_view uri = rest.substr(slash);
    if (!uri.empty() && uri != path) {
      add(pass, "changes the path, which the gateway cannot: no route was written");
      return false;
    }
    const std::string authority{rest.substr(0, slash)};
    const auto upstream = upstreams_.find(authority);
    if (upstream == upstreams_.end()) {
      route.servers.push_back(scheme + authority);
      return true;
    }
    read_upstream(*upstream->second, scheme, route);
    if (route.servers.empty())
      add(pass, "the gateway can use none of its servers: no route was written");
    return !route.servers.empty();
  }

  void read_upstream(const NginxDirective& upstream, const std::string& scheme, NginxRoute& route) {
    const bool is_first = reported_.insert(&upstream).second;
    const auto report = [&](const NginxDirective& directive, std::string_view why) {
      if (is_first) add(directive, why);
    };
    for (const NginxDirective& directive : upstream.block) {
      if (directive.name() == "server") {
        if (const auto address = server_address(directive, report)) {
          route.servers.push_back(scheme + *address);
        }
      } else if (directive.name() == "least_conn") {
        route.least_connections = true;
      } else if (directive.name() != "zone" && !directive.name().starts_with("keepalive")) {
        report(directive,
               "the gateway supports only `balance: round_robin` and `least_connections`");
      }
    }
  }

  static std::optional<std::string> server_address(const NginxDirective& server,
                                                   const auto& report) {
    std::string address = server.argument(1);
    bool is_used = !address.starts_with("unix:");
    for (std::size_t i = 2; i < server.words.size(); ++i) {
      const std::string& option = server.argument(i);
      is_used = is_used && option != "down" && option != "backup";
      const bool is_known = option == "down" || option == "resolve" ||
                            option.starts_with("max_conns=");  // (reported by nginx_skipped.cc)
      if (!is_known)
        report(server, fmt::format("the gateway does not support {} for a server", option));
    }
    if (address.starts_with("unix:"))
      report(server, "the gateway connects to servers over TCP only");
    if (!is_used) return std::nullopt;
    const std::size_t bracket = address.rfind(']');
    const std::size_t colon = address.rfind(':');
    const bool has_port =
        colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
    if (!has_port) address += ":80";
    return address;
  }

  // ---- Remaining directives

  void report_known(const Directives& directives) {
    for (const NginxDirective& directive : directives) {
      const std::string_view why = reason_of(directive.name());
      if (!why.empty()) add(directive, why);
    }
  }

  void report_all(const Directives& directives) {
    for (const NginxDirective& directive : directives) {
      const std::string& name = directive.name();
      const std::string_view why = reason_of(name);
      const bool is_lost_header = name == "proxy_set_header" && !is_written(directive);
      if (is_silent(name) && !is_lost_header) continue;
      add(directive, is_lost_header ? "the gateway sets X-Forwarded-* and Forwarded, and passes "
                                      "other request headers on"
                     : why.empty()  ? kOther
                                    : why);
    }
  }

  // True if the gateway sets this header by itself.
  static bool is_written(const NginxDirective& directive) {
    const std::string name = lowered(directive.argument(1));
    return (name == "host" && directive.argument(2).starts_with('$')) || name == "connection" ||
           name == "upgrade" || name.starts_with("x-forwarded-") || name == "x-request-id";
  }

  // ---- Order

  // nginx chooses the server by exact name, then by the longest wildcard, then the default server;
  // in it, the location by whole path, then by the longest prefix. The gateway takes the first
  // route that matches, so the routes are sorted in that order.
  void put_in_order(std::vector<NginxRoute>& routes) {
    const bool others_have_wildcards = std::ranges::any_of(servers_, [](const NginxServer& server) {
      return !server.is_default && !server.hosts.wildcards.empty();
    });
    for (NginxServer& server : servers_) sort_by_path(server.routes);
    for (const NginxServer& server : servers_) {
      if (!server.is_default || others_have_wildcards) append(server, server.hosts.exact, routes);
    }
    std::vector<std::pair<std::string, const NginxServer*>> wildcards;
    for (const NginxServer& server : servers_) {
      if (server.is_default && !others_have_wildcards) continue;
      for (const std::string& name : server.hosts.wildcards) wildcards.emplace_back(name, &server);
    }
    std::ranges::stable_sort(
        wildcards, [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
    for (const auto& [name, server] : wildcards) append(*server, {name}, routes);
    for (const NginxServer& server : servers_) {
      if (server.is_default)
        routes.insert(routes.end(), server.routes.begin(), server.routes.end());
    }
  }

  static void sort_by_path(std::vector<NginxRoute>& routes) {
    const auto is_whole = [](const NginxRoute& route) { return !route.path.ends_with("**"); };
    std::ranges::stable_sort(routes, [&](const NginxRoute& a, const NginxRoute& b) {
      if (is_whole(a) != is_whole(b)) return is_whole(a);
      return !is_whole(a) && prefix_size(a) > prefix_size(b);
    });
  }

  static std::size_t prefix_size(const NginxRoute& route) { return route.path.find('*'); }

  static void append(const NginxServer& server, const std::vector<std::string>& hosts,
                     std::vector<NginxRoute>& routes) {
    if (hosts.empty()) return;
    for (NginxRoute route : server.routes) {
      route.hosts = hosts;
      routes.push_back(std::move(route));
    }
  }

  const NginxLimits& limits_;
  std::vector<NginxSkipped>& skipped_;
  std::vector<const Directives*> http_blocks_;  // and the top level
  std::vector<const NginxDirective*> server_blocks_;
  std::map<std::string, const NginxDirective*> upstreams_;
  std::set<const NginxDirective*> reported_;        // upstreams
  const NginxDirective* trusts_proxies_ = nullptr;  // a set_real_ip_from
  bool names_client_header_ = false;                // there is a real_ip_header
  std::vector<NginxServer> servers_;
};

// ---- Keys

void remove_unsupported_limits(const std::map<std::string, NginxZone>& zones,
                               NginxLimitSet NginxBlockLimits::*kind, std::string_view what,
                               NginxLimits& limits, std::vector<NginxSkipped>& skipped) {
  std::set<std::string> unknown;
  for (const auto& [name, zone] : zones) {
    if (std::ranges::find(zone.variables, "request_uri") != zone.variables.end()) {
      skipped.push_back({zone.position, fmt::format("{} {}", what, name),
                         "$request_uri is counted without its query string"});
    }
    const auto variable = std::ranges::find_if(
        zone.variables, [](const std::string& each) { return !key_source(each, "name"); });
    if (variable == zone.variables.end()) continue;
    unknown.insert(name);
    skipped.push_back({zone.position, fmt::format("{} {}", what, name),
                       fmt::format("the gateway has no key source for ${}: the limits of this "
                                   "zone are not imported",
                                   *variable)});
  }
  const auto remove = [&](NginxBlockLimits& level) {
    std::erase_if((level.*kind).uses,
                  [&](const NginxUse& use) { return unknown.contains(use.zone); });
  };
  for (NginxBlockLimits& block : limits.changed_blocks) remove(block);
  for (auto& [directive, level] : limits.levels) remove(level);
}

}  // namespace

std::optional<std::string> key_source(std::string_view variable, const std::string& server_name) {
  const auto source_of = [&](std::string_view start, std::string_view kind) {
    return fmt::format("{}:{}", kind, variable.substr(start.size()));
  };
  if (variable == "remote_addr") return "ip";
  if (variable == "host" || variable == "http_host") return "host";
  if (variable == "uri" || variable == "document_uri" || variable == "request_uri") return "path";
  if (variable == "request_method") return "method";
  if (variable == "server_name") return "const:" + (server_name.empty() ? "_" : server_name);
  if (variable.starts_with("arg_")) return source_of("arg_", "query");
  if (variable.starts_with("cookie_")) return source_of("cookie_", "cookie");
  if (variable.starts_with("http_")) {
    std::string source = source_of("http_", "header");
    std::ranges::replace(source, '_', '-');
    return source;
  }
  return std::nullopt;
}

bool may_be_empty(std::string_view variable) {
  return variable.starts_with("arg_") || variable.starts_with("cookie_") ||
         (variable.starts_with("http_") && variable != "http_host");
}

NginxGateway read_gateway(const NginxConfig& config, NginxLimits& limits) {
  std::vector<NginxSkipped> skipped;
  remove_unsupported_limits(limits.request_zones, &NginxBlockLimits::requests, "limit_req_zone",
                            limits, skipped);
  remove_unsupported_limits(limits.connection_zones, &NginxBlockLimits::connections,
                            "limit_conn_zone", limits, skipped);
  NginxGateway gateway = NginxRouteReader(config, limits, skipped).read();
  gateway.skipped = std::move(skipped);
  return gateway;
}

}  // namespace weir::cli
