#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/utf8.h"
#include "server/http_handlers.h"
#include "server/texts.h"
#include "wire/http1_target.h"

namespace weir::server {

void list_policies(HttpCall& call) {
  nlohmann::json policies = nlohmann::json::object();
  for (const Policies::Listed& each : call.service.policies.list()) {
    policies[each.name] = {{"limits", each.limits}, {"source", each.put ? "put" : "file"}};
  }
  const nlohmann::json body{{"generation", call.service.engine.generation()},
                            {"policies", std::move(policies)}};
  call.answer().json(200, body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
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

void put_policy(HttpCall& call) {
  if (!call.request.says_length)
    return call.answer().problem(411, "a body is missing", "Content-Length");
  const auto name = policy_name(call);
  if (!name) return;
  if (auto flaw = call.service.policies.put(call.service.engine, *name, call.request.body)) {
    return call.answer().problem(flaw->not_kept ? 500 : 400, flaw->message, flaw->field);
  }
  audit(call.caller, "policy {} put", in_quotes(*name));
  call.answer().json(200, fmt::format(R"({{"generation":{}}})", call.service.engine.generation()));
}

void delete_policy(HttpCall& call) {
  const auto name = policy_name(call);
  if (!name) return;
  const auto removed = call.service.policies.remove(call.service.engine, *name);
  if (!removed) return call.answer().problem(500, removed.error().message);
  if (!*removed) return call.answer().problem(404, "no policy of that name was put", "name");
  audit(call.caller, "policy {} deleted", in_quotes(*name));
  call.answer().json(200, fmt::format(R"({{"generation":{}}})", call.service.engine.generation()));
}

}  // namespace weir::server
