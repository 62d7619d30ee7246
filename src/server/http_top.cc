#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "server/format.h"
#include "server/http_handlers.h"
#include "wire/http1_target.h"
#include "wire/json_write.h"

namespace weir::server {

namespace {

constexpr std::int64_t kDefaultKeys = 10;
constexpr std::int64_t kMaxKeys = 64;

struct TopParams {
  std::optional<std::string> policy{};  // none: all policies
  std::int64_t limit = kDefaultKeys;
};

// One parameter; or none, and the call has been answered.
std::optional<wire::QueryValue> read_param(HttpCall& call, std::string_view name,
                                           std::string& buffer) {
  using QueryStatus = wire::QueryValue::Status;
  const auto found = wire::query_value(call.request.query, name, buffer);
  if (found.status != QueryStatus::malformed && found.status != QueryStatus::repeated) return found;
  call.response().problem(400, "this parameter is malformed or given twice", name);
  return std::nullopt;
}

std::optional<TopParams> read(HttpCall& call) {
  TopParams params;
  std::string buffer;
  const auto policy = read_param(call, "policy", buffer);
  if (!policy) return std::nullopt;
  if (*policy) params.policy = std::string{policy->value};
  const auto limit = read_param(call, "limit", buffer);
  if (!limit) return std::nullopt;
  if (!*limit) return params;
  const auto number = whole_number(limit->value);
  if (!number || *number < 1 || *number > kMaxKeys) {
    call.response().problem(400, fmt::format("limit must be a whole number from 1 to {}", kMaxKeys),
                            "limit");
    return std::nullopt;
  }
  params.limit = *number;
  return params;
}

// Keeps all policies in force, also those without calls, and other policies while they have keys.
void select_policies(TopReport& top, const std::set<std::string_view>& in_force) {
  std::erase_if(top.policies, [&](const auto& each) {
    const auto& [name, policy] = each;
    const bool has_keys = !policy.top_allowed.empty() || !policy.top_refused.empty();
    return !name.empty() && !has_keys && !in_force.contains(name);
  });
  for (const std::string_view name : in_force) top.policies.try_emplace(name);
}

// ---- Writing

// The error bound of a count: three standard deviations of the sampling, and what the sketch may
// have counted too much.
std::uint64_t error_of(const HeavyHitter& key) {
  const double deviation = std::sqrt(static_cast<double>(key.variance));
  return key.error + static_cast<std::uint64_t>(std::ceil(3 * deviation));
}

void append_keys(std::string& out, const std::vector<HeavyHitter>& keys) {
  std::string_view separator;
  for (const HeavyHitter& key : keys) {
    out += separator;
    out += R"({"key":)";
    wire::append_json_string(out, key.text.view());
    if (key.text.is_truncated()) out += R"(,"cut":true)";
    out += fmt::format(R"(,"count":{},"error":{}}})", key.count, error_of(key));
    separator = ",";
  }
}

void append_texts(std::string& out, std::string_view field, const std::vector<std::string>& texts) {
  if (texts.empty()) return;
  out += fmt::format(R"(,"{}":[)", field);
  std::string_view separator;
  for (const std::string& text : texts) {
    out += separator;
    wire::append_json_string(out, text);
    separator = ",";
  }
  out += "]";
}

// The limits and orders of a policy in force.
void append_rules(std::string& out, const Policies::PolicyInfo& info) {
  std::vector<std::string> limits;
  for (const policy::Limit& limit : info.policy.limits) limits.push_back(limit_text(limit));
  append_texts(out, "limits", limits);
  std::vector<std::string> orders;
  for (const GivenOrder& given : info.orders) orders.push_back(to_text(given));
  append_texts(out, "orders", orders);
}

// `info`: null if the policy is not in force.
void append_policy(std::string& out, std::string_view name, const PolicyTop& policy,
                   const Policies::PolicyInfo* info) {
  out += R"({"policy":)";
  wire::append_json_string(out, name);
  out +=
      fmt::format(R"(,"allowed":{},"refused":{},"top_allowed":[)", policy.allowed, policy.refused);
  append_keys(out, policy.top_allowed);
  out += R"(],"top_refused":[)";
  append_keys(out, policy.top_refused);
  out += "]";
  if (info != nullptr) append_rules(out, *info);
  out += "}";
}

}  // namespace

void show_top(HttpCall& call) {
  if (!call.context.metrics.counts_keys()) {
    return call.response().problem(501, "keys are not counted: start weir serve with --top on");
  }
  const auto params = read(call);
  if (!params) return;
  TopReport top = call.context.metrics.top(static_cast<std::size_t>(params->limit), params->policy);
  const auto all = call.context.policies.list(call.context.engine.now(), 0);
  std::map<std::string_view, const Policies::PolicyInfo*> infos;
  std::set<std::string_view> in_force;
  for (const Policies::PolicyInfo& each : all) {
    infos.emplace(each.name, &each);
    in_force.insert(each.name);
  }
  select_policies(top, in_force);
  if (params->policy && !top.policies.contains(*params->policy)) {
    const std::vector<std::string_view> known(in_force.begin(), in_force.end());
    return call.response().problem(404, no_such_policy(*params->policy, known), "policy");
  }
  std::string body =
      fmt::format(R"({{"seconds":{},"uptime_seconds":{},"generation":{},"policies":[)", top.seconds,
                  top.uptime, call.context.engine.generation());
  std::string_view separator;
  for (const auto& [name, policy] : top.policies) {
    if (params->policy && name != *params->policy) continue;
    body += separator;
    const auto found = infos.find(name);
    append_policy(body, name, policy, found == infos.end() ? nullptr : found->second);
    separator = ",";
  }
  call.response().json(200, body + "]}");
}

}  // namespace weir::server
