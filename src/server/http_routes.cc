#include "server/http_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/suggest.h"
#include "server/browser_guard.h"
#include "server/http_handlers.h"

namespace weir::server {

namespace {

using RouteHandler = void (*)(HttpCall&);

struct ApiRoute {
  std::string_view path;
  std::string_view method;  // *: any
  RouteHandler handler;
  RequiredRights required = RequiredRights::call;
};

constexpr std::array kRoutes{
    ApiRoute{"/v1/take", "POST", on_take},
    ApiRoute{"/v1/peek", "POST", on_peek},
    ApiRoute{"/v1/settle", "POST", on_settle, RequiredRights::change},
    ApiRoute{"/v1/reset", "POST", on_reset, RequiredRights::change},
    ApiRoute{"/v1/enter", "POST", on_enter},
    ApiRoute{"/v1/leave", "POST", on_leave},
    ApiRoute{"/v1/explain", "POST", on_explain},
    ApiRoute{"/v1/explain/domain", "POST", on_explain_domain},
    ApiRoute{"/v1/throttle", "POST", on_throttle},
    ApiRoute{"/v1/auth", "GET", on_auth},
    ApiRoute{"/v1/auth", "POST", on_auth},
    ApiRoute{"/v1/policies", "GET", list_policies},
    ApiRoute{kPolicyPath, "GET", show_policy},
    ApiRoute{kPolicyPath, "PUT", put_policy, RequiredRights::change},
    ApiRoute{kPolicyPath, "DELETE", delete_policy, RequiredRights::change},
    ApiRoute{"/v1/boost", "POST", on_boost, RequiredRights::change},
    ApiRoute{"/v1/block", "POST", on_block, RequiredRights::change},
    ApiRoute{"/v1/pause", "POST", on_pause, RequiredRights::change},
    ApiRoute{"/v1/squeeze", "POST", on_squeeze, RequiredRights::change},
    ApiRoute{"/v1/orders", "GET", list_orders, RequiredRights::change},
    ApiRoute{kOrderPath, "DELETE", lift_order, RequiredRights::change},
    ApiRoute{"/v1/fleet", "GET", show_fleet},
    ApiRoute{"/v1/top", "GET", show_top, RequiredRights::change},
    ApiRoute{"/json", "*", on_envoy_json},
    ApiRoute{"/healthcheck", "*", show_envoy_health, RequiredRights::none},
    ApiRoute{"/metrics", "GET", show_metrics},
    ApiRoute{"/healthz", "GET", show_health, RequiredRights::none},
    ApiRoute{"/readyz", "GET", show_readiness, RequiredRights::none},
    ApiRoute{"/", "GET", show_dashboard},
};

// A route whose path ends with a slash matches as a prefix.
bool matches_path(const ApiRoute& route, std::string_view path) {
  if (route.path.size() > 1 && route.path.ends_with('/')) return path.starts_with(route.path);
  return path == route.path;
}

bool matches_method(const ApiRoute& route, std::string_view method) {
  if (route.method == "*") return true;
  return route.method == method || (method == "HEAD" && route.method == "GET");
}

// True if a page of another site may have made a browser on this machine send the request (CSRF):
// by Origin, or by a Host that is not this machine (DNS rebinding). An Origin without a dot is not
// trusted: it may be another machine of the same network.
bool is_cross_site(const wire::HttpRequest& request) {
  const std::string own = own_host_name();
  const std::string_view host = request.host;
  if (!host.empty() && !is_local_name(host) && !is_own_host(host, own)) return true;
  const std::string_view origin = request.field("Origin");
  const std::size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos) return !origin.empty();
  return !is_own_host(origin.substr(scheme + 3), own);
}

// Against DNS rebinding: without a secret, Host must be a name of this server.
bool has_unknown_host(const wire::HttpRequest& request, const Rights& rights,
                      const Access& access) {
  const std::string_view host = request.host;
  if (!access.host_names || rights.has_password || rights.admin || host.empty()) return false;
  return !is_known_host(host, *access.host_names);
}

// The reason not to serve a request.
enum class Missing { nothing, password, known_host, token, local_origin };

Missing missing_for(const wire::HttpRequest& request, const ApiRoute& route, const Rights& rights,
                    const Access& access) {
  if (route.required == RequiredRights::none) return Missing::nothing;
  if (!rights.may_call(access)) return Missing::password;
  if (has_unknown_host(request, rights, access)) return Missing::known_host;
  if (route.required != RequiredRights::change || rights.admin) return Missing::nothing;
  if (!access.admin_token.empty()) return Missing::token;
  const bool is_local = rights.may_change(access) && !is_cross_site(request);
  return is_local ? Missing::nothing : Missing::local_origin;
}

// False: the call is not allowed, and has been answered.
bool authorize(HttpCall& call, const ApiRoute& route) {
  constexpr std::string_view challenge = "WWW-Authenticate: Bearer\r\n";
  switch (missing_for(call.request, route, call.rights(), call.context.access)) {
    case Missing::nothing:
      return true;
    case Missing::password:
      call.response().problem(401, "this needs the password, as Authorization: Bearer …",
                              "Authorization", challenge);
      break;
    case Missing::known_host:
      call.response().problem(
          403,
          "this Host is not known to be this server: add it to server_names, or "
          "set a password");
      break;
    case Missing::token:
      call.response().problem(401, "this needs the admin token, as Authorization: Bearer …",
                              "Authorization", challenge);
      break;
    case Missing::local_origin:
      call.response().problem(403,
                              "without an admin_token, this is allowed from this machine only");
      break;
  }
  return false;
}

const ApiRoute* find_route(const wire::HttpRequest& request) {
  const auto found = std::ranges::find_if(kRoutes, [&](const ApiRoute& route) {
    return matches_path(route, request.path) && matches_method(route, request.method);
  });
  return found != kRoutes.end() ? &*found : nullptr;
}

// The methods of all routes at a path, as a value of the field Allow.
std::string methods_at(std::string_view path) {
  std::string allowed;
  for (const ApiRoute& route : kRoutes) {
    if (!matches_path(route, path)) continue;
    allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", route.method);
    if (route.method == "GET") allowed += ", HEAD";
  }
  return allowed;
}

std::string nothing_at(std::string_view path) {
  constexpr std::size_t max_suggested = 64;  // bytes: no route is that long
  std::vector<std::string_view> known;
  if (path.size() <= max_suggested) {
    for (const ApiRoute& route : kRoutes) known.push_back(route.path);
  }
  return "there is nothing at this path" + did_you_mean(path, known);
}

}  // namespace

void route(HttpCall& call) {
  if (const ApiRoute* const route = find_route(call.request)) {
    if (route->handler != on_take) call.flush_takes();
    if (authorize(call, *route)) route->handler(call);
    return;
  }
  const std::string allowed = methods_at(call.request.path);
  if (allowed.empty()) return call.response().problem(404, nothing_at(call.request.path));
  call.response().problem(405, "this path has only the methods " + allowed, {},
                          "Allow: " + allowed + "\r\n");
}

// True if the body of the request is to be read: its route requires rights, and the sender has
// them. Routes that require none use no body.
bool needs_body(const ServerContext& context, const wire::HttpRequest& request,
                const net::Peer& peer) {
  const ApiRoute* const route = find_route(request);
  if (route == nullptr || route->required == RequiredRights::none) return false;
  const Rights rights = rights_of(request, peer, context.access);
  return missing_for(request, *route, rights, context.access) == Missing::nothing;
}

}  // namespace weir::server
