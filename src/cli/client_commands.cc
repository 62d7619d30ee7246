// The commands that ask a running daemon.

#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands.h"
#include "cli/http_client.h"

namespace weir::cli {

namespace {

using nlohmann::json;

struct Options {
  HttpClient client{.url = "http://127.0.0.1:7380"};
  bool as_json = false;
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

int fail(std::string_view text) {
  std::cerr << "weir: " << text << '\n';
  return kFailed;
}

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

// Asks, and prints what comes back. 429 is an answer, not a failure to ask.
template <typename Print>
int ask(const Options& options, std::string_view method, std::string_view path,
        const std::string& body, Print print) {
  const auto answer = options.client.ask(method, path, body);
  if (!answer) return fail(answer.error().message);
  const json said = json::parse(answer->body, nullptr, false);
  const bool decided = answer->status == 200 || answer->status == 429 || answer->status == 503;
  if (said.is_discarded() || !said.is_object()) {
    return fail(fmt::format("an answer that is no JSON, with status {}", answer->status));
  }
  if (!decided || said.contains("detail")) {
    return fail(said.value("detail", fmt::format("status {}", answer->status)));
  }
  options.as_json ? void(std::cout << said.dump(2) << '\n') : print(said);
  const json& decision = said.contains("decision") ? said["decision"] : said;
  return decision.value("allowed", true) ? kSuccess : kFailed;
}

using Printer = void (*)(const json&);

int ask_about_key(const Options& options, std::string_view path, bool has_permits, Printer print) {
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
  return ask(options, "POST", path, body->dump(-1, ' ', false, json::error_handler_t::replace),
             print);
}

std::shared_ptr<Options> add_options(CLI::App* command) {
  auto options = std::make_shared<Options>();
  command->add_option("--url", options->client.url, "Where the daemon is")
      ->envname("WEIR_URL")
      ->capture_default_str();
  command
      ->add_option("--token", options->client.token, "The password or admin token, if it has one")
      ->envname("WEIR_TOKEN");
  command
      ->add_option("--ca", options->client.ca,
                   "For https://: who signed its certificate (default: whom the system trusts)")
      ->envname("WEIR_CA")
      ->type_name("FILE");
  CLI::Option* cert =
      command
          ->add_option("--cert", options->client.cert, "A certificate, if the daemon asks for one")
          ->envname("WEIR_CERT")
          ->type_name("FILE");
  CLI::Option* key = command->add_option("--key", options->client.key, "The key of --cert")
                         ->envname("WEIR_KEY")
                         ->type_name("FILE");
  cert->needs(key);
  key->needs(cert);
  command->add_flag("--json", options->as_json, "Print the answer as JSON");
  return options;
}

void add_key_command(CLI::App& app, int& exit_code, const char* name, const char* about,
                     std::string path, bool has_permits, Printer print) {
  CLI::App* command = app.add_subcommand(name, about);
  const auto options = add_options(command);
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

// ---- Orders of operators

struct OrderOptions {
  std::shared_ptr<Options> client;
  std::optional<double> times;
  std::optional<std::int64_t> add;
  std::string duration;
  std::string until;
};

int give_order(const OrderOptions& options, const std::string& path) {
  json body = json::object();
  const auto put = [&](const char* name, const std::string& text) {
    if (!text.empty()) body[name] = text;
  };
  put("policy", options.client->policy);
  put("key", options.client->key);
  put("for", options.duration);
  put("until", options.until);
  if (options.times) body["times"] = *options.times;
  if (options.add) body["add"] = *options.add;
  return ask(*options.client, "POST", path,
             body.dump(-1, ' ', false, json::error_handler_t::replace), [](const json& order) {
               std::cout << fmt::format("order {}, until {}\n", order.at("id").dump(),
                                        order.at("until").get<std::string>());
             });
}

// What an order may say.
enum class Says { policy, policy_and_key, policy_or_all };

void add_order_command(CLI::App& app, int& exit_code, const char* name, const char* about,
                       Says says) {
  CLI::App* command = app.add_subcommand(name, about);
  auto options = std::make_shared<OrderOptions>();
  options->client = add_options(command);
  auto* policy = command->add_option("POLICY", options->client->policy,
                                     says == Says::policy_or_all ? "Only this policy" : "Which");
  if (says != Says::policy_or_all) policy->required();
  const std::string verb = name;
  if (says == Says::policy_and_key) {
    auto* key = command->add_option("KEY", options->client->key,
                                    "Whose: a key, the start of one and a star, or name=value");
    if (verb == "block") key->required();
  }
  if (verb == "boost" || verb == "squeeze") {
    auto* times = command->add_option(
        "--times", options->times, verb == "boost" ? "So many times as much" : "What is left: 0.5");
    verb == "boost" ? times->excludes(command->add_option("--add", options->add, "So much more"))
                    : times->required();
  }
  auto* until =
      command->add_option("--until", options->until, "When it ends: 2026-01-31T12:00:00Z");
  command->add_option("--for", options->duration, "How long it holds: 10min")->excludes(until);
  command->callback([=, &exit_code] { exit_code = give_order(*options, "/v1/" + verb); });
}

void print_orders(const json& answer) {
  if (answer.at("orders").empty()) std::cout << "none\n";
  for (const json& order : answer.at("orders")) {
    std::cout << fmt::format("{:>4}  {}\n", order.at("id").dump(),
                             order.at("text").get<std::string>());
  }
}

void add_order_commands(CLI::App& app, int& exit_code) {
  add_order_command(app, exit_code, "boost",
                    "Raise the limits of a policy, or of a key, for a while", Says::policy_and_key);
  add_order_command(app, exit_code, "block", "Refuse all calls of a key for a while",
                    Says::policy_and_key);
  add_order_command(app, exit_code, "pause", "Let everything pass under a policy for a while",
                    Says::policy);
  add_order_command(app, exit_code, "squeeze", "Lower all limits for a while", Says::policy_or_all);

  CLI::App* orders = app.add_subcommand("orders", "List the orders in force");
  const auto listing = add_options(orders);
  orders->callback(
      [=, &exit_code] { exit_code = ask(*listing, "GET", "/v1/orders", {}, print_orders); });

  CLI::App* lift = app.add_subcommand("lift", "End an order before its time");
  const auto lifting = add_options(lift);
  const auto id = std::make_shared<std::uint64_t>();
  lift->add_option("ID", *id, "As `weir orders` lists it")->required();
  lift->callback([=, &exit_code] {
    exit_code = ask(*lifting, "DELETE", fmt::format("/v1/orders/{}", *id), {},
                    [](const json&) { std::cout << "lifted\n"; });
  });
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
  const auto options = add_options(policies);
  policies->callback(
      [=, &exit_code] { exit_code = ask(*options, "GET", "/v1/policies", {}, print_policies); });
  add_order_commands(app, exit_code);
}

}  // namespace weir::cli
