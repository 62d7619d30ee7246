#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "server/http_handlers.h"
#include "server/texts.h"
#include "wire/http1_target.h"
#include "wire/json_write.h"

namespace weir::server {

namespace {

constexpr std::int64_t kUsual = 10;
constexpr std::int64_t kMost = 64;

struct Asked {
  std::optional<std::string> policy{};  // all of them, if none is named
  std::int64_t limit = kUsual;
};

// One parameter, or nothing and the call is answered.
std::optional<wire::QueryValue> read_param(HttpCall& call, std::string_view name,
                                           std::string& buffer) {
  using Status = wire::QueryValue::Status;
  const auto found = wire::query_value(call.request.query, name, buffer);
  if (found.status != Status::malformed && found.status != Status::repeated) return found;
  call.answer().problem(400, "malformed or given twice", name);
  return std::nullopt;
}

std::optional<Asked> read(HttpCall& call) {
  Asked asked;
  std::string buffer;
  const auto policy = read_param(call, "policy", buffer);
  if (!policy) return std::nullopt;
  if (*policy) asked.policy = std::string{policy->value};
  const auto limit = read_param(call, "limit", buffer);
  if (!limit) return std::nullopt;
  if (!*limit) return asked;
  const auto number = whole_number(limit->value);
  if (!number || *number < 1 || *number > kMost) {
    call.answer().problem(400, fmt::format("limit is a whole number from 1 to {}", kMost), "limit");
    return std::nullopt;
  }
  asked.limit = *number;
  return asked;
}

// Those in force, whether anybody has asked for them or not, and others while there is something to
// tell about their keys.
void choose(Top& top, const std::set<std::string_view>& in_force) {
  std::erase_if(top.policies, [&](const auto& each) {
    const auto& [name, policy] = each;
    const bool has_keys = !policy.top_allowed.empty() || !policy.top_refused.empty();
    return !name.empty() && !has_keys && !in_force.contains(name);
  });
  for (const std::string_view name : in_force) top.policies.try_emplace(name);
}

// ---- Writing

// Of samples three standard deviations are told, so that one in some hundred is outside.
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
    if (key.text.is_cut()) out += R"(,"cut":true)";
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

// What is said of a policy in force beside its numbers.
void append_rules(std::string& out, const Policies::Listed& listed) {
  std::vector<std::string> limits;
  for (const policy::Limit& limit : listed.policy.limits) limits.push_back(described(limit));
  append_texts(out, "limits", limits);
  std::vector<std::string> orders;
  for (const GivenOrder& given : listed.orders) orders.push_back(to_text(given));
  append_texts(out, "orders", orders);
}

// `listed` is none of a policy that is not in force.
void append_policy(std::string& out, std::string_view name, const TopOfPolicy& policy,
                   const Policies::Listed* listed) {
  out += R"({"policy":)";
  wire::append_json_string(out, name);
  out +=
      fmt::format(R"(,"allowed":{},"refused":{},"top_allowed":[)", policy.allowed, policy.refused);
  append_keys(out, policy.top_allowed);
  out += R"(],"top_refused":[)";
  append_keys(out, policy.top_refused);
  out += "]";
  if (listed != nullptr) append_rules(out, *listed);
  out += "}";
}

}  // namespace

void show_top(HttpCall& call) {
  if (!call.service.metrics.counts_keys()) {
    return call.answer().problem(501, "keys are not counted: start weir serve with --top on");
  }
  const auto asked = read(call);
  if (!asked) return;
  Top top = call.service.metrics.top(static_cast<std::size_t>(asked->limit), asked->policy);
  const auto all = call.service.policies.list(call.service.engine.now(), 0);
  std::map<std::string_view, const Policies::Listed*> listed;
  std::set<std::string_view> in_force;
  for (const Policies::Listed& each : all) {
    listed.emplace(each.name, &each);
    in_force.insert(each.name);
  }
  choose(top, in_force);
  if (asked->policy && !top.policies.contains(*asked->policy)) {
    const std::vector<std::string_view> known(in_force.begin(), in_force.end());
    return call.answer().problem(404, no_such_policy(*asked->policy, known), "policy");
  }
  std::string body =
      fmt::format(R"({{"seconds":{},"uptime_seconds":{},"generation":{},"policies":[)", top.seconds,
                  top.uptime, call.service.engine.generation());
  std::string_view separator;
  for (const auto& [name, policy] : top.policies) {
    if (asked->policy && name != *asked->policy) continue;
    body += separator;
    const auto found = listed.find(name);
    append_policy(body, name, policy, found == listed.end() ? nullptr : found->second);
    separator = ",";
  }
  call.answer().json(200, body + "]}");
}

}  // namespace weir::server
