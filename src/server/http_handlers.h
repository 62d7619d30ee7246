#pragma once

#include "server/http_call.h"

// The handlers of the routes of the HTTP API. Each answers its call exactly once.

namespace weir::server {

// http_decisions.cc. `on_take` may leave the response to the batch of takes; the others are called
// when all takes before them are decided.
void on_take(HttpCall& call);
void on_peek(HttpCall& call);
void on_settle(HttpCall& call);
void on_reset(HttpCall& call);
void on_enter(HttpCall& call);
void on_leave(HttpCall& call);
void on_explain(HttpCall& call);
void on_throttle(HttpCall& call);
void on_auth(HttpCall& call);

// True if the call has a body, and its Content-Type is JSON or missing. Otherwise the call has been
// answered.
bool has_json_body(HttpCall& call);

// http_policies.cc. All but the first are for paths that start with kPolicyPath.
inline constexpr std::string_view kPolicyPath = "/v1/policies/";
void list_policies(HttpCall& call);
void show_policy(HttpCall& call);
void put_policy(HttpCall& call);
void delete_policy(HttpCall& call);

// http_orders.cc. The last one is for paths that start with kOrderPath.
inline constexpr std::string_view kOrderPath = "/v1/orders/";
void on_boost(HttpCall& call);
void on_block(HttpCall& call);
void on_pause(HttpCall& call);
void on_squeeze(HttpCall& call);
void list_orders(HttpCall& call);
void lift_order(HttpCall& call);

// http_envoy.cc
void on_explain_domain(HttpCall& call);

// http_fleet.cc
void show_fleet(HttpCall& call);

// http_envoy_json.cc
void on_envoy_json(HttpCall& call);
void show_envoy_health(HttpCall& call);

// http_top.cc
void show_top(HttpCall& call);

// http_pages.cc
void show_readiness(HttpCall& call);
void show_health(HttpCall& call);
void show_dashboard(HttpCall& call);

// http_metrics.cc
void show_metrics(HttpCall& call);

}  // namespace weir::server
