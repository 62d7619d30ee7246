#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "envoy/explain.h"
#include "server/format.h"
#include "server/http_handlers.h"
#include "server/thread_link.h"
#include "wire/json_write.h"

namespace weir::server {

using nlohmann::json;

namespace {

// The body of the call: {"domain":"shop","descriptor":[{"key":"user","value":"alice"}],"hits":1}.
struct ExplainParams {
  std::string domain;
  std::vector<std::pair<std::string, std::string>> entries;
  std::uint64_t hits = 1;
  std::string error{};  // not empty: the body is not valid
  std::string field{};  // with the error
};

ExplainParams invalid(std::string field, std::string error) {
  return {.domain = {}, .entries = {}, .error = std::move(error), .field = std::move(field)};
}

ExplainParams read(std::string_view text) {
  const json body = json::parse(text, nullptr, false);
  if (!body.is_object()) return invalid({}, "the body is not a JSON object");
  for (const auto& [name, value] : body.items()) {
    if (name == "domain" || name == "descriptor" || name == "hits") continue;
    const std::string its_name = shortened(name);
    return invalid(its_name, fmt::format("there is no field \"{}\": write domain, descriptor, hits",
                                         its_name));
  }
  if (!body.contains("domain") || !body["domain"].is_string()) {
    return invalid("domain", "the domain is missing, or not a string");
  }
  ExplainParams params{.domain = body["domain"].get<std::string>(), .entries = {}};
  if (!body.contains("descriptor") || !body["descriptor"].is_array()) {
    return invalid("descriptor", "the descriptor must be a list of {\"key\":…,\"value\":…}");
  }
  for (const json& entry : body["descriptor"]) {
    const bool is_pair = entry.is_object() && entry.contains("key") && entry["key"].is_string() &&
                         (!entry.contains("value") || entry["value"].is_string());
    if (!is_pair) return invalid("descriptor", "each entry must be {\"key\":…,\"value\":…}");
    params.entries.emplace_back(entry["key"].get<std::string>(), entry.value("value", ""));
  }
  if (body.contains("hits")) {
    const json& hits = body["hits"];
    constexpr auto max_hits = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (!hits.is_number_unsigned() || hits.get<std::uint64_t>() > max_hits) {
      return invalid("hits", "hits must be a whole number");
    }
    params.hits = hits.get<std::uint64_t>();
  }
  return params;
}

json to_json(const envoy::ExplainedStep& step) {
  json body{{"key", step.key}, {"value", step.value}, {"match", envoy::to_text(step.match)}};
  if (!step.pattern.empty()) body["pattern"] = step.pattern;
  if (!step.place.empty()) body["rule_at"] = step.place;
  return body;
}

json to_json(const envoy::ExplainedLimit& limit) {
  const Decision& decision = limit.decision;
  json body{{"limit", limit.text},
            {"statistics", limit.counted_as},
            {"counter", limit.counter},
            {"shadow_mode", limit.shadow},
            {"quota_mode", limit.quota},
            {"hits", limit.hits},
            {"allowed", static_cast<bool>(decision)},
            {"capacity", decision.limit},
            {"remaining", decision.remaining},
            {"reset_after_ms", wire::millis_up(decision.reset_after)}};
  if (!limit.name.empty()) body["name"] = limit.name;
  body["retry_after_ms"] = decision.outcome == Outcome::impossible
                               ? json()
                               : json(wire::millis_up(decision.retry_after));
  return body;
}

std::string_view result_of(const envoy::ExplainedDescriptor& descriptor) {
  if (!descriptor.has_domain) return "no_domain";
  return descriptor.unlimited ? "unlimited" : envoy::to_text(descriptor.end);
}

json to_json(const envoy::RequestExplanation& explanation) {
  const envoy::ExplainedDescriptor& descriptor = explanation.descriptors.at(0);
  json steps = json::array();
  for (const envoy::ExplainedStep& step : descriptor.steps) steps.push_back(to_json(step));
  json body{{"domain", explanation.domain},
            {"walk", std::move(steps)},
            {"result", result_of(descriptor)},
            {"why", descriptor.why}};
  if (descriptor.limit) body["limit"] = to_json(*descriptor.limit);
  return body;
}

}  // namespace

void on_explain_domain(HttpCall& call) {
  if (!has_json_body(call)) return;
  const ExplainParams params = read(call.request.body);
  if (!params.error.empty()) return call.response().problem(400, params.error, params.field);
  envoy::RateLimitDescriptor descriptor{.entries = {}, .hits = params.hits};
  for (const auto& [key, value] : params.entries) descriptor.entries.push_back({key, value});
  envoy::RateLimitRequest envoy_call{.domain = params.domain, .descriptors = {}};
  envoy_call.descriptors.push_back(std::move(descriptor));
  call.context.envoy_rules->explain(
      envoy_call, link_of_this_thread(),
      [deferred = call.defer()](Result<envoy::RequestExplanation, envoy::ServiceError> result) {
        deferred.send([&](HttpResponder& response) {
          if (!result) {
            return response.problem(result.error().store ? 503 : 400, result.error().text);
          }
          response.json(200, to_json(*result).dump(-1, ' ', false, json::error_handler_t::replace));
        });
      });
}

}  // namespace weir::server
