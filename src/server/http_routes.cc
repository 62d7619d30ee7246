#include "server/http_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/suggest.h"
#include "server/http_handlers.h"
#include "server/this_machine.h"

namespace weir::server {

namespace {

using Handler = void (*)(HttpCall&);
enum class For { anybody, let_in, admin };

struct Route {
  std::string_view path;
  std::string_view method;  // *: any
  Handler handler;
  For whom = For::let_in;
};

constexpr std::array kRoutes{
    Route{"/v1/take", "POST", on_take},
    Route{"/v1/peek", "POST", on_peek},
    Route{"/v1/settle", "POST", on_settle, For::admin},
    Route{"/v1/reset", "POST", on_reset, For::admin},
    Route{"/v1/enter", "POST", on_enter},
    Route{"/v1/leave", "POST", on_leave},
    Route{"/v1/explain", "POST", on_explain},
    Route{"/v1/explain/domain", "POST", on_explain_domain},
    Route{"/v1/throttle", "POST", on_throttle},
    Route{"/v1/auth", "GET", on_auth},
    Route{"/v1/auth", "POST", on_auth},
    Route{"/v1/policies", "GET", list_policies},
    Route{kPolicyPath, "GET", show_policy},
    Route{kPolicyPath, "PUT", put_policy, For::admin},
    Route{kPolicyPath, "DELETE", delete_policy, For::admin},
    Route{"/v1/boost", "POST", on_boost, For::admin},
    Route{"/v1/block", "POST", on_block, For::admin},
    Route{"/v1/pause", "POST", on_pause, For::admin},
    Route{"/v1/squeeze", "POST", on_squeeze, For::admin},
    Route{"/v1/orders", "GET", list_orders, For::admin},
    Route{kOrderPath, "DELETE", lift_order, For::admin},
    Route{"/v1/fleet", "GET", show_fleet},
    Route{"/v1/top", "GET", show_top, For::admin},
    Route{"/json", "*", on_envoy_json},
    Route{"/healthcheck", "*", show_envoy_health, For::anybody},
    Route{"/metrics", "GET", show_metrics},
    Route{"/healthz", "GET", show_health, For::anybody},
    Route{"/readyz", "GET", show_readiness, For::anybody},
    Route{"/", "GET", show_dashboard},
};

// A path that ends with a slash has something behind it.
bool leads_to(const Route& route, std::string_view path) {
  if (route.path.size() > 1 && route.path.ends_with('/')) return path.starts_with(route.path);
  return path == route.path;
}

bool answers(const Route& route, std::string_view method) {
  if (route.method == "*") return true;
  return route.method == method || (method == "HEAD" && route.method == "GET");
}

// Whether a page elsewhere made a browser of this machine ask. The browser tells where the page is
// from; and pages that pretend to be from here know this machine by a name of their own. (Whose
// page it is, a name without a dot does not say: a neighbour in the same network can have it.)
bool from_elsewhere(const wire::HttpRequest& request) {
  const std::string own = name_of_this_machine();
  const std::string_view host = request.host;
  if (!host.empty() && !is_local_name(host) && !is_this_machine(host, own)) return true;
  const std::string_view origin = request.field("Origin");
  const std::size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos) return !origin.empty();
  return !is_this_machine(origin.substr(scheme + 3), own);
}

// Without a password, a page that leads a browser here by a name of its own must not read anything.
bool has_unknown_host(const wire::HttpRequest& request, const Rights& rights,
                      const Access& access) {
  const std::string_view host = request.host;
  if (!access.host_names || rights.let_in || rights.admin || host.empty()) return false;
  return !is_known_host(host, *access.host_names);
}

// What a request lacks to be served.
enum class Lacks { nothing, password, known_host, token, place };

Lacks what_it_lacks(const wire::HttpRequest& request, const Route& route, const Rights& rights,
                    const Access& access) {
  if (route.whom == For::anybody) return Lacks::nothing;
  if (!rights.may_call(access)) return Lacks::password;
  if (has_unknown_host(request, rights, access)) return Lacks::known_host;
  if (route.whom != For::admin || rights.admin) return Lacks::nothing;
  if (!access.admin_token.empty()) return Lacks::token;
  return rights.may_change(access) && !from_elsewhere(request) ? Lacks::nothing : Lacks::place;
}

bool let_in(HttpCall& call, const Route& route) {
  constexpr std::string_view challenge = "WWW-Authenticate: Bearer\r\n";
  switch (what_it_lacks(call.request, route, call.rights(), call.service.access)) {
    case Lacks::nothing:
      return true;
    case Lacks::password:
      call.answer().problem(401, "this needs the password, as Authorization: Bearer …",
                            "Authorization", challenge);
      break;
    case Lacks::known_host:
      call.answer().problem(403,
                            "this Host is not known to be this server: add it to server_names, or "
                            "set a password");
      break;
    case Lacks::token:
      call.answer().problem(401, "this needs the admin token, as Authorization: Bearer …",
                            "Authorization", challenge);
      break;
    case Lacks::place:
      call.answer().problem(403, "this is for this machine only, or with an admin_token");
      break;
  }
  return false;
}

const Route* find_route(const wire::HttpRequest& request) {
  const auto found = std::ranges::find_if(kRoutes, [&](const Route& route) {
    return leads_to(route, request.path) && answers(route, request.method);
  });
  return found != kRoutes.end() ? &*found : nullptr;
}

// The methods of all routes at a path, as the field Allow lists them.
std::string methods_at(std::string_view path) {
  std::string allowed;
  for (const Route& route : kRoutes) {
    if (!leads_to(route, path)) continue;
    allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", route.method);
    if (route.method == "GET") allowed += ", HEAD";
  }
  return allowed;
}

std::string nothing_at(std::string_view path) {
  constexpr std::size_t longer_than_any = 64;
  std::vector<std::string_view> known;
  if (path.size() <= longer_than_any) {
    for (const Route& route : kRoutes) known.push_back(route.path);
  }
  return "there is nothing at this path" + did_you_mean(path, known);
}

}  // namespace

void route(HttpCall& call) {
  if (const Route* const route = find_route(call.request)) {
    if (route->handler != on_take) call.finish_earlier();
    if (let_in(call, *route)) route->handler(call);
    return;
  }
  const std::string allowed = methods_at(call.request.path);
  if (allowed.empty()) return call.answer().problem(404, nothing_at(call.request.path));
  call.answer().problem(405, "this path has other methods: " + allowed, {},
                        "Allow: " + allowed + "\r\n");
}

// (What is for anybody looks at no body.)
bool needs_body(const Service& service, const wire::HttpRequest& request, const net::Peer& peer) {
  const Route* const route = find_route(request);
  if (route == nullptr || route->whom == For::anybody) return false;
  const Rights rights = rights_of(request, peer, service.access);
  return what_it_lacks(request, *route, rights, service.access) == Lacks::nothing;
}

}  // namespace weir::server
