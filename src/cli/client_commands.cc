// The commands take, peek, reset, explain and policies, which call a running daemon.

#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/api_call.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "server/format.h"

namespace weir::cli {

namespace {

using nlohmann::json;

struct KeyOptions {
  ApiCall api_call;
  std::string policy;
  std::string key;
  std::vector<std::string> parts;
  std::int64_t permits = 1;
  std::string domain;  // explain only: a domain of Envoy's rate limit rules
};

// ---- Printing

std::string duration(const json& millis) {
  if (millis.is_null()) return "never";
  return server::duration_text(std::chrono::milliseconds{millis.get<std::int64_t>()});
}

void print_row(std::string_view name, const std::string& value) {
  std::cout << fmt::format("{:<12} {}\n", name, value);
}

void print_decision(const json& decision) {
  print_row("allowed", decision.at("allowed").get<bool>() ? "yes" : "no");
  print_row("limit", decision.at("limit").dump());
  print_row("remaining", decision.at("remaining").dump());
  print_row("retry after", duration(decision.at("retry_after_ms")));
  if (decision.at("retry_after_ms").is_null()) {
    print_row("", "the call needs more permits than the limit can ever hold");
  }
  print_row("reset after", duration(decision.at("reset_after_ms")));
  if (decision.at("wait_ms") != 0) print_row("wait", duration(decision.at("wait_ms")));
  print_row("limited by", decision.at("limited_by").get<std::string>());
  if (decision.at("degraded").get<bool>()) print_row("degraded", "yes");
}

void print_explanation(const json& answer) {
  const json& decision = answer.at("decision");
  const bool passes = decision.at("allowed").get<bool>();
  std::cout << (passes ? "would pass" : "would be refused") << "\n";
  for (const json& order : answer.at("orders")) {
    std::cout << "  order: " << order.get<std::string>() << "\n";
  }
  for (const json& limit : answer.at("limits")) {
    std::cout << "  " << limit.at("text").get<std::string>() << "\n";
  }
}

// The limits of a policy, of an override or of a schedule entry, as text.
std::string limits_of(const json& policy) {
  std::string limits;
  for (const json& limit : policy.at("limit_details")) {
    limits += (limits.empty() ? "" : ", ") + limit.at("text").get<std::string>();
  }
  return limits;
}

// The overrides, the schedule and the orders of a policy.
void print_exceptions(const json& policy, std::size_t indent) {
  const auto print = [&](std::string_view what, const std::string& text) {
    std::cout << fmt::format("{:{}}{} {}\n", "", indent, what, text);
  };
  const auto each_of = [&](const char* name) {
    const auto found = policy.find(name);
    return found == policy.end() ? json::array() : *found;
  };
  const json overrides = each_of("overrides");
  for (const json& own : overrides) {
    print("override", own.at("key").get<std::string>() + ": " + limits_of(own));
  }
  const std::size_t count = policy.value("override_count", overrides.size());
  if (count > overrides.size()) {
    print("override", fmt::format("… and {} more", count - overrides.size()));
  }
  for (const json& shift : each_of("schedule")) {
    print("hours", shift.at("hours").get<std::string>() + ": " + limits_of(shift));
  }
  for (const json& order : each_of("orders")) {
    print("order", order.at("id").dump() + ": " + order.at("text").get<std::string>());
  }
}

void print_policies(const json& answer) {
  std::size_t width = 6;
  for (const auto& [name, policy] : answer.at("policies").items()) {
    width = std::max(width, name.size());
  }
  for (const auto& [name, policy] : answer.at("policies").items()) {
    std::cout << fmt::format("{:<{}}  {}{}\n", name, width, limits_of(policy),
                             policy.at("source") == "put" ? "  (put)" : "");
    print_exceptions(policy, width + 4);
  }
}

// ---- Requests

Result<json, Error> body_of(const KeyOptions& options) {
  json body{{"policy", options.policy}};
  if (options.parts.empty()) {
    body["key"] = options.key;
    return body;
  }
  for (const std::string& part : options.parts) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) return Error{"--part must be name=value, not " + part};
    const std::string name = part.substr(0, equals);
    if (body["parts"].contains(name)) return Error{"the part " + name + " is given twice"};
    body["parts"][name] = part.substr(equals + 1);
  }
  return body;
}

int call_for_key(const KeyOptions& options, std::string_view path, bool has_permits,
                 ApiCall::ResponsePrinter print) {
  if (options.key.empty() == options.parts.empty()) {
    return fail("give either a KEY or --part name=value", kUsage);
  }
  auto body = body_of(options);
  if (!body) return fail(body.error().message, kUsage);
  if (has_permits) (*body)["permits"] = options.permits;
  return options.api_call.run("POST", path, *body, print);
}

// ---- Envoy's descriptors

// Parses "user=alice,path=/buy"; a comma inside a value is written as \\,.
Result<json, Error> descriptor_of(const std::string& text) {
  std::vector<std::string> pairs(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text[i] == '\\' && i + 1 < text.size() && text[i + 1] == ',';
    if (text[i] == ',') {
      pairs.emplace_back();
    } else {
      pairs.back() += text[escaped ? ++i : i];
    }
  }
  json entries = json::array();
  for (const std::string& pair : pairs) {
    const std::size_t equals = pair.find('=');
    if (equals == 0 || pair.empty()) return Error{"a descriptor must be key=value,key=value …"};
    json entry{{"key", pair.substr(0, equals)}};
    if (equals != std::string::npos) entry["value"] = pair.substr(equals + 1);
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::string matched_by(const json& step) {
  const std::string match = step.at("match").get<std::string>();
  const std::string at =
      step.contains("rule_at") ? ", " + step.at("rule_at").get<std::string>() : "";
  if (match == "value") return "its value" + at;
  if (match == "wildcard") {
    return fmt::format("the wildcard {}{}", step.at("pattern").get<std::string>(), at);
  }
  return match == "key" ? "its key, for any value" + at : "nothing";
}

void print_limit(const json& limit) {
  const bool passes = limit.at("allowed").get<bool>();
  std::cout << fmt::format("  limit: {}{}{}{}\n", limit.at("limit").get<std::string>(),
                           limit.contains("name") ? " " + limit.at("name").dump() : "",
                           limit.at("shadow_mode").get<bool>() ? ", in shadow_mode" : "",
                           limit.at("quota_mode").get<bool>() ? ", in quota_mode" : "");
  std::cout << fmt::format(
      "  state: {} of {} left, full again in {}; {} {}{}\n", limit.at("remaining").dump(),
      limit.at("capacity").dump(), duration(limit.at("reset_after_ms")), limit.at("hits").dump(),
      limit.at("hits") == 1 ? "hit" : "hits",
      passes ? " would pass" : " would be over, for " + duration(limit.at("retry_after_ms")));
  std::cout << fmt::format("  counter: {}\n  statistics: {}\n",
                           limit.at("counter").get<std::string>(),
                           limit.at("statistics").get<std::string>());
}

void print_rule_lookup(const json& answer) {
  const std::string result = answer.at("result").get<std::string>();
  const bool passes = !answer.contains("limit") || answer.at("limit").at("allowed").get<bool>();
  std::cout << (result == "limit" ? passes ? "within the limit" : "over the limit" : "no limit")
            << "\n";
  for (const json& step : answer.at("walk")) {
    std::cout << fmt::format("  {}={}: {}\n", step.at("key").get<std::string>(),
                             step.at("value").get<std::string>(), matched_by(step));
  }
  std::cout << "  " << answer.at("why").get<std::string>() << "\n";
  if (answer.contains("limit")) print_limit(answer.at("limit"));
}

int explain_domain(const KeyOptions& options) {
  const auto descriptor = descriptor_of(options.policy);
  if (!options.key.empty() || !options.parts.empty() || !descriptor) {
    return fail("--domain needs exactly one descriptor: key=value,key=value", kUsage);
  }
  const json body{
      {"domain", options.domain}, {"descriptor", *descriptor}, {"hits", options.permits}};
  return options.api_call.run("POST", "/v1/explain/domain", body, print_rule_lookup);
}

void add_key_command(CLI::App& app, int& exit_code, const char* name, const char* about,
                     std::string path, bool has_permits, ApiCall::ResponsePrinter print) {
  CLI::App* command = app.add_subcommand(name, about);
  const auto options = std::make_shared<KeyOptions>();
  options->api_call.add_to(command);
  const bool explains = print == print_explanation;
  command
      ->add_option("POLICY", options->policy,
                   explains ? "Name of a policy; with --domain, a descriptor: "
                              "key=value,key=value"
                            : "Name of a policy")
      ->required();
  if (explains) {
    command->add_option("--domain", options->domain,
                        "Domain of Envoy rate limit rules: show which rule the descriptor matches");
  }
  command->add_option("KEY", options->key,
                      "The key that is counted, such as a user or an IP address");
  command
      ->add_option("--part", options->parts,
                   "Part of the key, name=value, instead of KEY; repeatable")
      ->take_all()
      ->type_size(1);
  if (has_permits) {
    command->add_option("--permits", options->permits, "Number of permits")
        ->transform(whole_number(0))
        ->capture_default_str();
  }
  command->callback([=, &exit_code] {
    exit_code = options->domain.empty() ? call_for_key(*options, path, has_permits, print)
                                        : explain_domain(*options);
  });
}

}  // namespace

void add_client_commands(CLI::App& app, int& exit_code) {
  add_key_command(app, exit_code, "take", "Take permits, as a caller would", "/v1/take", true,
                  print_decision);
  add_key_command(app, exit_code, "peek", "Show whether a call would pass, without taking permits",
                  "/v1/peek", true, print_decision);
  add_key_command(app, exit_code, "reset", "Reset the usage of a key", "/v1/reset", false,
                  [](const json&) { std::cout << "usage reset\n"; });
  add_key_command(app, exit_code, "explain",
                  "Show what each limit decides about a call, without taking permits",
                  "/v1/explain", true, print_explanation);
  CLI::App* policies = app.add_subcommand("policies", "List the policies in force");
  const auto api_call = std::make_shared<ApiCall>();
  api_call->add_to(policies);
  policies->callback(
      [=, &exit_code] { exit_code = api_call->run("GET", "/v1/policies", {}, print_policies); });
}

}  // namespace weir::cli
