#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/audit.h"
#include "server/http_handlers.h"
#include "server/orders.h"
#include "server/texts.h"

namespace weir::server {

using nlohmann::json;
using Verb = policy::Order::Verb;

namespace {

std::string dumped(const json& body) {
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

// The order that the body gives, or nothing, and the call is answered.
std::optional<GivenOrder> order_of(HttpCall& call, Verb verb) {
  const auto refuse = [&](int status, std::string_view detail, std::string_view field = {}) {
    call.answer().problem(status, detail, field);
    return std::nullopt;
  };
  if (!brings_json(call)) return std::nullopt;
  const json body = json::parse(call.request.body, nullptr, false);
  if (body.is_discarded()) return refuse(400, "the body is not JSON");
  auto order = read_order(verb, body, call.service.engine.now());
  if (!order) return refuse(400, order.error().detail, order.error().field);
  if (!order->policy.empty() && !call.service.policies.has(order->policy)) {
    const std::vector<std::string> names = call.service.policies.names();
    const std::vector<std::string_view> known(names.begin(), names.end());
    return refuse(404, no_such_policy(order->policy, known), "policy");
  }
  return *std::move(order);
}

void on_order(HttpCall& call, Verb verb) {
  auto order = order_of(call, verb);
  if (!order) return;
  Service& service = call.service;
  answer_after(
      call,
      [&service, order = *std::move(order)] {
        return service.policies.give(service.engine, order);
      },
      [&service, caller = CallerCopy(call.caller)](HttpAnswer& answer, const auto& given) {
        if (!given) {
          return answer.problem(given.error().not_kept ? 500 : 400, given.error().message);
        }
        audit(caller, "order {}: {}", given->id, to_text(*given));
        json body = to_json(*given);
        const auto not_reached = service.policies.not_reached(*given);
        if (!not_reached.empty()) body["not_reached"] = not_reached;
        answer.json(200, dumped(body));
      });
}

}  // namespace

void on_boost(HttpCall& call) { on_order(call, Verb::boost); }
void on_block(HttpCall& call) { on_order(call, Verb::block); }
void on_pause(HttpCall& call) { on_order(call, Verb::pause); }
void on_squeeze(HttpCall& call) { on_order(call, Verb::squeeze); }

void list_orders(HttpCall& call) {
  json orders = json::array();
  for (const GivenOrder& given : call.service.policies.orders(call.service.engine.now())) {
    orders.push_back(to_json(given));
    orders.back()["text"] = to_text(given);
  }
  call.answer().json(200, dumped({{"orders", std::move(orders)}}));
}

void lift_order(HttpCall& call) {
  const auto id = whole_number(call.request.path.substr(kOrderPath.size()));
  // (No order has the id 0.)
  const auto number = static_cast<std::uint64_t>(id && *id > 0 ? *id : 0);
  Service& service = call.service;
  answer_after(
      call, [&service, number] { return service.policies.lift(service.engine, number); },
      [number, caller = CallerCopy(call.caller)](HttpAnswer& answer, const auto& lifted) {
        if (!lifted) return answer.problem(500, lifted.error().message);
        if (!*lifted) {
          return answer.problem(404, "there is no such order in force: see GET /v1/orders", "id");
        }
        audit(caller, "order {} lifted", number);
        answer.json(200, R"({"lifted":true})");
      });
}

}  // namespace weir::server
