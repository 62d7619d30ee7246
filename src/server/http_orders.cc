#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/audit.h"
#include "server/format.h"
#include "server/http_handlers.h"
#include "server/orders.h"

namespace weir::server {

using nlohmann::json;
using Verb = policy::Order::Verb;

namespace {

std::string dumped(const json& body) {
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

// The order in the body; or none, and the call has been answered.
std::optional<GivenOrder> order_of(HttpCall& call, Verb verb) {
  const auto refuse = [&](int status, std::string_view detail, std::string_view field = {}) {
    call.response().problem(status, detail, field);
    return std::nullopt;
  };
  if (!has_json_body(call)) return std::nullopt;
  const json body = json::parse(call.request.body, nullptr, false);
  if (body.is_discarded()) return refuse(400, "the body is not JSON");
  auto order = read_order(verb, body, call.context.engine.now());
  if (!order) return refuse(400, order.error().detail, order.error().field);
  if (!order->policy.empty() && !call.context.policies.has(order->policy)) {
    const std::vector<std::string> names = call.context.policies.names();
    const std::vector<std::string_view> known(names.begin(), names.end());
    return refuse(404, no_such_policy(order->policy, known), "policy");
  }
  return *std::move(order);
}

void on_order(HttpCall& call, Verb verb) {
  auto order = order_of(call, verb);
  if (!order) return;
  ServerContext& context = call.context;
  respond_after(
      call,
      [&context, order = *std::move(order)] {
        return context.policies.give(context.engine, order);
      },
      [&context, caller = OwnedCaller(call.caller)](HttpResponder& response, const auto& given) {
        if (!given) {
          return response.problem(given.error().not_saved ? 500 : 400, given.error().message);
        }
        audit(caller, "order {}: {}", given->id, to_text(*given));
        json body = to_json(*given);
        const auto not_reached = context.policies.not_reached(*given);
        if (!not_reached.empty()) body["not_reached"] = not_reached;
        response.json(200, dumped(body));
      });
}

}  // namespace

void on_boost(HttpCall& call) { on_order(call, Verb::boost); }
void on_block(HttpCall& call) { on_order(call, Verb::block); }
void on_pause(HttpCall& call) { on_order(call, Verb::pause); }
void on_squeeze(HttpCall& call) { on_order(call, Verb::squeeze); }

void list_orders(HttpCall& call) {
  json orders = json::array();
  for (const GivenOrder& given : call.context.policies.orders(call.context.engine.now())) {
    orders.push_back(to_json(given));
    orders.back()["text"] = to_text(given);
  }
  call.response().json(200, dumped({{"orders", std::move(orders)}}));
}

void lift_order(HttpCall& call) {
  const auto id = whole_number(call.request.path.substr(kOrderPath.size()));
  // (No order has the id 0.)
  const auto number = static_cast<std::uint64_t>(id && *id > 0 ? *id : 0);
  ServerContext& context = call.context;
  respond_after(
      call, [&context, number] { return context.policies.lift(context.engine, number); },
      [number, caller = OwnedCaller(call.caller)](HttpResponder& response, const auto& lifted) {
        if (!lifted) return response.problem(500, lifted.error().message);
        if (!*lifted) {
          return response.problem(404, "there is no such order in force: see GET /v1/orders", "id");
        }
        audit(caller, "order {} lifted", number);
        response.json(200, R"({"lifted":true})");
      });
}

}  // namespace weir::server
