#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "envoy/explain.h"
#include "server/http_handlers.h"
#include "server/links.h"
#include "server/texts.h"
#include "wire/json_write.h"

namespace weir::server {

using nlohmann::json;

namespace {

// What is asked: {"domain":"shop","descriptor":[{"key":"user","value":"alice"}],"hits":1}.
struct Asked {
  std::string domain;
  std::vector<std::pair<std::string, std::string>> entries;
  std::uint64_t hits = 1;
  std::string error{};  // why it makes no sense
  std::string field{};
};

Asked wrong(std::string field, std::string error) {
  return {.domain = {}, .entries = {}, .error = std::move(error), .field = std::move(field)};
}

Asked read(std::string_view text) {
  const json body = json::parse(text, nullptr, false);
  if (!body.is_object()) return wrong({}, "the body is no JSON object");
  for (const auto& [name, value] : body.items()) {
    if (name == "domain" || name == "descriptor" || name == "hits") continue;
    const std::string its_name = shortened(name);
    return wrong(its_name,
                 fmt::format("there is no field \"{}\": write domain, descriptor, hits", its_name));
  }
  if (!body.contains("domain") || !body["domain"].is_string()) {
    return wrong("domain", "the domain is missing, or no text");
  }
  Asked asked{.domain = body["domain"].get<std::string>(), .entries = {}};
  if (!body.contains("descriptor") || !body["descriptor"].is_array()) {
    return wrong("descriptor", "the descriptor is a list of {\"key\":…,\"value\":…}");
  }
  for (const json& entry : body["descriptor"]) {
    const bool is_pair = entry.is_object() && entry.contains("key") && entry["key"].is_string() &&
                         (!entry.contains("value") || entry["value"].is_string());
    if (!is_pair) return wrong("descriptor", "each entry is {\"key\":…,\"value\":…}");
    asked.entries.emplace_back(entry["key"].get<std::string>(), entry.value("value", ""));
  }
  if (body.contains("hits")) {
    const json& hits = body["hits"];
    constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (!hits.is_number_unsigned() || hits.get<std::uint64_t>() > most) {
      return wrong("hits", "hits is a whole number");
    }
    asked.hits = hits.get<std::uint64_t>();
  }
  return asked;
}

json to_json(const envoy::ExplainedStep& step) {
  json told{{"key", step.key}, {"value", step.value}, {"match", envoy::to_text(step.match)}};
  if (!step.pattern.empty()) told["pattern"] = step.pattern;
  if (!step.place.empty()) told["rule_at"] = step.place;
  return told;
}

json to_json(const envoy::ExplainedLimit& limit) {
  const Decision& decision = limit.decision;
  json told{{"limit", limit.text},
            {"statistics", limit.counted_as},
            {"counter", limit.counter},
            {"shadow_mode", limit.shadow},
            {"quota_mode", limit.quota},
            {"hits", limit.hits},
            {"allowed", static_cast<bool>(decision)},
            {"capacity", decision.limit},
            {"remaining", decision.remaining},
            {"reset_after_ms", wire::millis_up(decision.reset_after)}};
  if (!limit.name.empty()) told["name"] = limit.name;
  told["retry_after_ms"] = decision.outcome == Outcome::impossible
                               ? json()
                               : json(wire::millis_up(decision.retry_after));
  return told;
}

std::string_view result_of(const envoy::ExplainedDescriptor& told) {
  if (!told.has_domain) return "no_domain";
  return told.unlimited ? "unlimited" : envoy::to_text(told.end);
}

json to_json(const envoy::Explanation& explanation) {
  const envoy::ExplainedDescriptor& told = explanation.descriptors.at(0);
  json steps = json::array();
  for (const envoy::ExplainedStep& step : told.steps) steps.push_back(to_json(step));
  json answer{{"domain", explanation.domain},
              {"walk", std::move(steps)},
              {"result", result_of(told)},
              {"why", told.why}};
  if (told.limit) answer["limit"] = to_json(*told.limit);
  return answer;
}

}  // namespace

void on_explain_domain(HttpCall& call) {
  if (!brings_json(call)) return;
  const Asked asked = read(call.request.body);
  if (!asked.error.empty()) return call.answer().problem(400, asked.error, asked.field);
  envoy::Descriptor descriptor{.entries = {}, .hits = asked.hits};
  for (const auto& [key, value] : asked.entries) descriptor.entries.push_back({key, value});
  envoy::Call question{.domain = asked.domain, .descriptors = {}};
  question.descriptors.push_back(std::move(descriptor));
  call.service.envoy_rules->explain(
      question, link_of_this_thread(),
      [later = call.later()](Result<envoy::Explanation, envoy::Failure> told) {
        later.answer([&](HttpAnswer& answer) {
          if (!told) return answer.problem(told.error().store ? 503 : 400, told.error().text);
          answer.json(200, to_json(*told).dump(-1, ' ', false, json::error_handler_t::replace));
        });
      });
}

}  // namespace weir::server
