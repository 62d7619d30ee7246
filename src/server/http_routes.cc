#include "server/http_routes.h"

#include <fmt/format.h>

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
bool from_elsewhere(const HttpCall& call) {
  const std::string own = name_of_this_machine();
  const std::string_view host = call.request.host;
  if (!host.empty() && !is_local_name(host) && !is_this_machine(host, own)) return true;
  const std::string_view origin = call.request.field("Origin");
  const std::size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos) return !origin.empty();
  return !is_this_machine(origin.substr(scheme + 3), own);
}

bool let_in(HttpCall& call, const Route& route) {
  if (route.whom == For::anybody) return true;
  const Rights rights = call.rights();
  const Access& access = call.service.access;
  constexpr std::string_view challenge = "WWW-Authenticate: Bearer\r\n";
  if (!rights.may_call(access)) {
    call.answer().problem(401, "this needs the password, as Authorization: Bearer …",
                          "Authorization", challenge);
    return false;
  }
  if (route.whom != For::admin || rights.admin) return true;
  if (!access.admin_token.empty()) {
    call.answer().problem(401, "this needs the admin token, as Authorization: Bearer …",
                          "Authorization", challenge);
    return false;
  }
  if (rights.may_change(access) && !from_elsewhere(call)) return true;
  call.answer().problem(403, "this is for this machine only, or with an admin_token");
  return false;
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
  std::string allowed;
  for (const Route& route : kRoutes) {
    if (!leads_to(route, call.request.path)) continue;
    if (answers(route, call.request.method)) {
      if (route.handler != on_take) call.finish_earlier();
      if (let_in(call, route)) route.handler(call);
      return;
    }
    allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", route.method);
    if (route.method == "GET") allowed += ", HEAD";
  }
  if (allowed.empty()) return call.answer().problem(404, nothing_at(call.request.path));
  call.answer().problem(405, "this path has other methods: " + allowed, {},
                        "Allow: " + allowed + "\r\n");
}

}  // namespace weir::server
