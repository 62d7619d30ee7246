// The commands for orders: temporary overrides that operators give a running daemon.

#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/api_call.h"
#include "cli/commands.h"
#include "cli/report.h"

namespace weir::cli {

namespace {

using nlohmann::json;

struct OrderOptions {
  ApiCall api_call;
  std::string policy;
  std::string key;
  std::optional<double> times;
  std::optional<std::int64_t> add;
  std::string duration;
  std::string until;
  std::string reason;
};

// Checked here as well: errors of the daemon would name the fields of the API, not the options.
const char* error_of(const OrderOptions& options, const std::string& verb) {
  if (verb == "boost" && !options.times && !options.add) {
    return "a boost needs --times 2 or --add 100";
  }
  if (options.duration.empty() && options.until.empty()) {
    return "an order needs an end: --for 10min or --until 2026-01-31T12:00:00Z";
  }
  return nullptr;
}

// Lists the overrides that keep their limits although the order covers some of their keys.
void print_not_reached(const json& order) {
  constexpr std::size_t max_shown = 10;
  if (!order.contains("not_reached")) return;
  const auto overrides = order.at("not_reached").get<std::vector<std::string>>();
  const std::span shown = std::span(overrides).first(std::min(overrides.size(), max_shown));
  std::cout << fmt::format("overrides of other parts of the key are not changed: {}{}\n",
                           fmt::join(shown, ", "), overrides.size() > max_shown ? ", …" : "");
}

int give_order(const OrderOptions& options, const std::string& verb) {
  if (const char* error = error_of(options, verb)) return fail(error, kUsage);
  json body = json::object();
  const auto put = [&](const char* name, const std::string& text) {
    if (!text.empty()) body[name] = text;
  };
  put("policy", options.policy);
  put("key", options.key);
  put("for", options.duration);
  put("until", options.until);
  put("reason", options.reason);
  if (options.times) body["times"] = *options.times;
  if (options.add) body["add"] = *options.add;
  return options.api_call.run("POST", "/v1/" + verb, body, [](const json& order) {
    std::cout << fmt::format("order {}, until {}\n", order.at("id").dump(),
                             order.at("until").get<std::string>());
    print_not_reached(order);
  });
}

// The arguments of an order.
enum class OrderArguments { policy, policy_and_key, policy_or_all };

void add_order_command(CLI::App& app, int& exit_code, const char* name, const char* about,
                       OrderArguments arguments) {
  CLI::App* command = app.add_subcommand(name, about);
  auto options = std::make_shared<OrderOptions>();
  options->api_call.add_to(command);
  auto* policy = command->add_option("POLICY", options->policy,
                                     arguments == OrderArguments::policy_or_all
                                         ? "Name of a policy (default: all policies)"
                                         : "Name of a policy");
  if (arguments != OrderArguments::policy_or_all) policy->required();
  const std::string verb = name;
  if (arguments == OrderArguments::policy_and_key) {
    auto* key = command->add_option("KEY", options->key,
                                    "A key, a prefix with a star (user:*), or part=value");
    if (verb == "block") key->required();
  }
  if (verb == "boost" || verb == "squeeze") {
    auto* times =
        command->add_option("--times", options->times,
                            verb == "boost" ? "Multiply the limits by this factor, such as 2"
                                            : "Multiply the limits by this factor, such as 0.5");
    verb == "boost" ? times->excludes(command
                                          ->add_option("--add", options->add,
                                                       "Raise the limits by this number of permits")
                                          ->transform(whole_number(INT64_MIN)))
                    : times->required();
  }
  auto* until = command->add_option("--until", options->until,
                                    "When the order ends, such as 2026-01-31T12:00:00Z");
  command
      ->add_option("--for", options->duration, "How long the order lasts: 90s, 10min, 2h30min, 1d")
      ->excludes(until);
  command->add_option("--reason", options->reason, "Reason, shown to other operators");
  command->callback([=, &exit_code] { exit_code = give_order(*options, verb); });
}

void print_orders(const json& answer) {
  if (answer.at("orders").empty()) std::cout << "none\n";
  for (const json& order : answer.at("orders")) {
    std::cout << fmt::format("{:>4}  {}\n", order.at("id").dump(),
                             order.at("text").get<std::string>());
  }
}

}  // namespace

void add_order_commands(CLI::App& app, int& exit_code) {
  add_order_command(app, exit_code, "boost",
                    "Raise the limits of a policy, or of a key, for a while",
                    OrderArguments::policy_and_key);
  add_order_command(app, exit_code, "block", "Refuse all calls of a key for a while",
                    OrderArguments::policy_and_key);
  add_order_command(app, exit_code, "pause", "Let everything pass under a policy for a while",
                    OrderArguments::policy);
  add_order_command(app, exit_code, "squeeze", "Lower all limits for a while",
                    OrderArguments::policy_or_all);

  CLI::App* orders = app.add_subcommand("orders", "List the orders in force");
  const auto listing = std::make_shared<ApiCall>();
  listing->add_to(orders);
  orders->callback(
      [=, &exit_code] { exit_code = listing->run("GET", "/v1/orders", {}, print_orders); });

  CLI::App* lift = app.add_subcommand("lift", "End an order early");
  const auto lifting = std::make_shared<ApiCall>();
  lifting->add_to(lift);
  const auto id = std::make_shared<std::uint64_t>();
  lift->add_option("ID", *id, "ID of the order, from `weir orders`")
      ->transform(whole_number(0))
      ->required();
  lift->callback([=, &exit_code] {
    exit_code = lifting->run("DELETE", fmt::format("/v1/orders/{}", *id), {},
                             [](const json&) { std::cout << "lifted\n"; });
  });
}

}  // namespace weir::cli
