#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/utf8.h"
#include "policy/limit_text.h"
#include "policy/limit_yaml.h"
#include "policy/policy_yaml.h"
#include "server/format.h"
#include "server/http_handlers.h"
#include "wire/http1_target.h"

namespace weir::server {

namespace {

using nlohmann::json;

// A policy may have very many overrides: the list of all policies shows this many of each.
constexpr std::size_t kMaxListedOverrides = 100;

std::string dumped(const json& body) {
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

json limit_texts(const std::vector<policy::Limit>& limits) {
  json texts = json::array();
  for (const policy::Limit& limit : limits) texts.push_back(policy::to_text(limit.limit));
  return texts;
}

// The fields of a limit; those with their default value are left out.
json details_of(const policy::Limit& limit) {
  json details{{"limit", policy::to_text(limit.limit)}, {"text", limit_text(limit)}};
  if (!limit.name.empty()) details["name"] = limit.name;
  if (!limit.by.empty()) details["by"] = limit.by;
  if (!limit.cost.permits) details["cost"] = limit.cost.fixed;
  if (limit.scope != policy::Scope::standard) details["scope"] = policy::to_text(limit.scope);
  if (limit.shadow) details["shadow"] = true;
  return details;
}

json details_of(const std::vector<policy::Limit>& limits) {
  json all = json::array();
  for (const policy::Limit& limit : limits) all.push_back(details_of(limit));
  return all;
}

json to_json(const Policies::PolicyInfo& info) {
  const policy::Policy& policy = info.policy;
  json written{{"limits", limit_texts(policy.limits)},
               {"limit_details", details_of(policy.limits)},
               {"when_full", policy::to_text(policy.when_full)},
               {"source", info.is_put ? "put" : "file"}};
  if (info.override_count > 0) written["override_count"] = info.override_count;
  for (const policy::Override& own : policy.overrides) {
    written["overrides"].push_back({{"key", own.pattern.written()},
                                    {"limits", limit_texts(own.limits)},
                                    {"limit_details", details_of(own.limits)}});
  }
  for (const policy::Shift& shift : policy.schedule) {
    written["schedule"].push_back({{"hours", policy::to_text(shift.hours)},
                                   {"limits", limit_texts(shift.limits)},
                                   {"limit_details", details_of(shift.limits)}});
  }
  for (const GivenOrder& given : info.orders) {
    written["orders"].push_back({{"id", given.id}, {"text", to_text(given)}});
  }
  return written;
}

}  // namespace

void list_policies(HttpCall& call) {
  const ServerContext& context = call.context;
  json policies = json::object();
  for (const auto& each : context.policies.list(context.engine.now(), kMaxListedOverrides)) {
    policies[each.name] = to_json(each);
  }
  call.response().json(200, dumped({{"generation", context.engine.generation()},
                                    {"policies", std::move(policies)}}));
}

namespace {

// The name in the path; or none, and the call has been answered. Names must be UTF-8: they are
// saved as JSON, where other bytes would become another name.
std::optional<std::string> policy_name(HttpCall& call) {
  std::string buffer;
  const auto name = wire::decode_path(call.request.path.substr(kPolicyPath.size()), buffer);
  const bool fits = name && !name->empty() && name->size() <= policy::kMaxPolicyNameLength;
  if (fits && is_utf8(*name)) return std::string{*name};
  call.response().problem(400, "the name of a policy must have 1 to 256 bytes, in UTF-8", "name");
  return std::nullopt;
}

}  // namespace

void show_policy(HttpCall& call) {
  const auto name = policy_name(call);
  if (!name) return;
  const ServerContext& context = call.context;
  const auto info = context.policies.find(*name, context.engine.now());
  if (!info) {
    const std::vector<std::string> names = context.policies.names();
    const std::vector<std::string_view> known(names.begin(), names.end());
    return call.response().problem(404, no_such_policy(*name, known), "name");
  }
  json body = to_json(*info);
  body["name"] = *name;
  body["generation"] = context.engine.generation();
  call.response().json(200, dumped(body));
}

namespace {

void send_generation(HttpResponder& response, const ServerContext& context) {
  response.json(200, fmt::format(R"({{"generation":{}}})", context.engine.generation()));
}

}  // namespace

void put_policy(HttpCall& call) {
  if (!call.request.declares_length)
    return call.response().problem(411, "the request has no body", "Content-Length");
  const auto name = policy_name(call);
  if (!name) return;
  ServerContext& context = call.context;
  respond_after(
      call,
      [&context, name = *name, text = std::string{call.request.body}] {
        return context.policies.put(context.engine, name, text);
      },
      [&context, name = *name, caller = OwnedCaller(call.caller)](HttpResponder& response,
                                                                  const auto& error) {
        if (error) {
          return response.problem(error->not_saved ? 500 : 400, error->message, error->field);
        }
        audit(caller, "policy {} put", in_quotes(name));
        send_generation(response, context);
      });
}

void delete_policy(HttpCall& call) {
  const auto name = policy_name(call);
  if (!name) return;
  ServerContext& context = call.context;
  respond_after(
      call, [&context, name = *name] { return context.policies.remove(context.engine, name); },
      [&context, name = *name, caller = OwnedCaller(call.caller)](HttpResponder& response,
                                                                  const auto& removed) {
        if (!removed) return response.problem(500, removed.error().message);
        if (!*removed) {
          return response.problem(
              404, "no policy of that name was put: only policies that were put can be deleted",
              "name");
        }
        audit(caller, "policy {} deleted", in_quotes(name));
        send_generation(response, context);
      });
}

}  // namespace weir::server
