#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/utf8.h"
#include "policy/limit_text.h"
#include "policy/limit_yaml.h"
#include "policy/policy_yaml.h"
#include "server/http_handlers.h"
#include "server/texts.h"
#include "wire/http1_target.h"

namespace weir::server {

namespace {

using nlohmann::json;

// There may be very many overrides: a list of all policies shows some of each.
constexpr std::size_t kSomeOverrides = 100;

std::string dumped(const json& body) {
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

json limit_texts(const std::vector<policy::Limit>& limits) {
  json texts = json::array();
  for (const policy::Limit& limit : limits) texts.push_back(policy::to_text(limit.rule));
  return texts;
}

// What is said of a limit beside its text. What is as usual is left out.
json details_of(const policy::Limit& limit) {
  json details{{"limit", policy::to_text(limit.rule)}, {"text", described(limit)}};
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

json to_json(const Policies::Listed& listed) {
  const policy::Policy& policy = listed.policy;
  json written{{"limits", limit_texts(policy.limits)},
               {"limit_details", details_of(policy.limits)},
               {"when_full", policy::to_text(policy.when_full)},
               {"source", listed.put ? "put" : "file"}};
  if (listed.overrides > 0) written["override_count"] = listed.overrides;
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
  for (const GivenOrder& given : listed.orders) {
    written["orders"].push_back({{"id", given.id}, {"text", to_text(given)}});
  }
  return written;
}

}  // namespace

void list_policies(HttpCall& call) {
  const Service& service = call.service;
  json policies = json::object();
  for (const auto& each : service.policies.list(service.engine.now(), kSomeOverrides)) {
    policies[each.name] = to_json(each);
  }
  call.answer().json(200, dumped({{"generation", service.engine.generation()},
                                  {"policies", std::move(policies)}}));
}

namespace {

// The name in the path, or nothing, and the call is answered. (Names are kept as JSON, where other
// bytes than UTF-8 would come back as another name.)
std::optional<std::string> policy_name(HttpCall& call) {
  std::string buffer;
  const auto name = wire::decode_path(call.request.path.substr(kPolicyPath.size()), buffer);
  const bool fits = name && !name->empty() && name->size() <= policy::kLongestPolicyName;
  if (fits && is_utf8(*name)) return std::string{*name};
  call.answer().problem(400, "the name of a policy has 1 to 256 bytes, in UTF-8", "name");
  return std::nullopt;
}

}  // namespace

void show_policy(HttpCall& call) {
  const auto name = policy_name(call);
  if (!name) return;
  const Service& service = call.service;
  const auto listed = service.policies.find(*name, service.engine.now());
  if (!listed) {
    const std::vector<std::string> names = service.policies.names();
    const std::vector<std::string_view> known(names.begin(), names.end());
    return call.answer().problem(404, no_such_policy(*name, known), "name");
  }
  json body = to_json(*listed);
  body["name"] = *name;
  body["generation"] = service.engine.generation();
  call.answer().json(200, dumped(body));
}

namespace {

void answer_changed(HttpAnswer& answer, const Service& service) {
  answer.json(200, fmt::format(R"({{"generation":{}}})", service.engine.generation()));
}

}  // namespace

void put_policy(HttpCall& call) {
  if (!call.request.says_length)
    return call.answer().problem(411, "a body is missing", "Content-Length");
  const auto name = policy_name(call);
  if (!name) return;
  Service& service = call.service;
  answer_after(
      call,
      [&service, name = *name, text = std::string{call.request.body}] {
        return service.policies.put(service.engine, name, text);
      },
      [&service, name = *name, caller = CallerCopy(call.caller)](HttpAnswer& answer,
                                                                 const auto& flaw) {
        if (flaw) return answer.problem(flaw->not_kept ? 500 : 400, flaw->message, flaw->field);
        audit(caller, "policy {} put", in_quotes(name));
        answer_changed(answer, service);
      });
}

void delete_policy(HttpCall& call) {
  const auto name = policy_name(call);
  if (!name) return;
  Service& service = call.service;
  answer_after(
      call, [&service, name = *name] { return service.policies.remove(service.engine, name); },
      [&service, name = *name, caller = CallerCopy(call.caller)](HttpAnswer& answer,
                                                                 const auto& removed) {
        if (!removed) return answer.problem(500, removed.error().message);
        if (!*removed) return answer.problem(404, "no policy of that name was put", "name");
        audit(caller, "policy {} deleted", in_quotes(name));
        answer_changed(answer, service);
      });
}

}  // namespace weir::server
