// The commands that ask a running daemon.

#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/asking.h"
#include "cli/commands.h"

namespace weir::cli {

namespace {

using nlohmann::json;

struct Options {
  Asking asking;
  std::string policy;
  std::string key;
  std::vector<std::string> parts;
  std::int64_t permits = 1;
};

// ---- Printing

std::string duration(const json& millis) {
  if (millis.is_null()) return "never";
  const auto ms = millis.get<std::int64_t>();
  if (ms < 1000) return fmt::format("{} ms", ms);
  return fmt::format("{:g} s", static_cast<double>(ms) / 1000);
}

void print_row(std::string_view name, const std::string& value) {
  std::cout << fmt::format("{:<12} {}\n", name, value);
}

void print_decision(const json& decision) {
  print_row("allowed", decision.at("allowed").get<bool>() ? "yes" : "no");
  print_row("limit", decision.at("limit").dump());
  print_row("remaining", decision.at("remaining").dump());
  print_row("retry after", duration(decision.at("retry_after_ms")));
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

void print_policies(const json& answer) {
  std::size_t width = 6;
  for (const auto& [name, policy] : answer.at("policies").items()) {
    width = std::max(width, name.size());
  }
  for (const auto& [name, policy] : answer.at("policies").items()) {
    std::string limits;
    for (const json& limit : policy.at("limits")) {
      limits += (limits.empty() ? "" : ", ") + limit.get<std::string>();
    }
    std::cout << fmt::format("{:<{}}  {}{}\n", name, width, limits,
                             policy.at("source") == "put" ? "  (put)" : "");
  }
}

// ---- Asking

Result<json, Error> body_of(const Options& options) {
  json body{{"policy", options.policy}};
  if (options.parts.empty()) {
    body["key"] = options.key;
    return body;
  }
  for (const std::string& part : options.parts) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) return Error{"a part is name=value, not " + part};
    body["parts"][part.substr(0, equals)] = part.substr(equals + 1);
  }
  return body;
}

int ask_about_key(const Options& options, std::string_view path, bool has_permits,
                  Asking::Printer print) {
  if (options.key.empty() == options.parts.empty()) {
    std::cerr << "weir: give a KEY, or --part name=value\n";
    return kUsage;
  }
  auto body = body_of(options);
  if (!body) {
    std::cerr << "weir: " << body.error().message << '\n';
    return kUsage;
  }
  if (has_permits) (*body)["permits"] = options.permits;
  return options.asking.ask("POST", path, *body, print);
}

void add_key_command(CLI::App& app, int& exit_code, const char* name, const char* about,
                     std::string path, bool has_permits, Asking::Printer print) {
  CLI::App* command = app.add_subcommand(name, about);
  const auto options = std::make_shared<Options>();
  options->asking.add_to(command);
  command->add_option("POLICY", options->policy, "A policy of the daemon")->required();
  command->add_option("KEY", options->key, "Who it is about");
  command->add_option("--part", options->parts, "A part of the key instead, name=value; repeatable")
      ->take_all()
      ->type_size(1);
  if (has_permits) {
    command->add_option("--permits", options->permits, "How many")->capture_default_str();
  }
  command->callback(
      [=, &exit_code] { exit_code = ask_about_key(*options, path, has_permits, print); });
}

}  // namespace

void add_client_commands(CLI::App& app, int& exit_code) {
  add_key_command(app, exit_code, "take", "Take permits, as a caller would", "/v1/take", true,
                  print_decision);
  add_key_command(app, exit_code, "peek", "Ask whether a call would pass; takes nothing",
                  "/v1/peek", true, print_decision);
  add_key_command(app, exit_code, "reset", "Forget what a key has used", "/v1/reset", false,
                  [](const json&) { std::cout << "forgotten\n"; });
  add_key_command(app, exit_code, "explain", "Say what each limit makes of a call; takes nothing",
                  "/v1/explain", true, print_explanation);
  CLI::App* policies = app.add_subcommand("policies", "List the policies in force");
  const auto asking = std::make_shared<Asking>();
  asking->add_to(policies);
  policies->callback(
      [=, &exit_code] { exit_code = asking->ask("GET", "/v1/policies", {}, print_policies); });
}

}  // namespace weir::cli
