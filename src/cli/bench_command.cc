#include <fmt/format.h>
#include <unistd.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>

#include <charconv>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "cli/asking.h"
#include "cli/bench/ask.h"
#include "cli/bench/ideal.h"
#include "cli/bench/message.h"
#include "cli/bench/plan.h"
#include "cli/bench/report.h"
#include "cli/bench/run.h"
#include "cli/commands.h"
#include "cli/http_client.h"
#include "cli/report.h"
#include "policy/limit_text.h"

namespace weir::cli {

namespace {

using nlohmann::json;

// What was typed.
struct BenchOptions {
  bench::Plan plan{};
  std::string address = "127.0.0.1:7379";
  std::string spread = "uniform";
  std::string mix = "take";
  std::string duration = "10s";
  std::string warmup = "0s";
  std::string timeout = "10s";
  std::optional<std::uint64_t> seed{};
  std::optional<std::string> prefix{};
  bool as_json = false;
};

// ---- The plan

std::optional<Error> read_time(std::string_view option, const std::string& text, Nanos& time) {
  const auto parsed = policy::parse_span(text);
  if (!parsed) return Error{fmt::format("{} {}: {}", option, text, parsed.error().message)};
  time = *parsed;
  return std::nullopt;
}

std::uint64_t any_seed() {
  std::random_device device;
  return device() % 1'000'000'000;
}

Result<bench::Plan, Error> plan_of(const BenchOptions& options) {
  bench::Plan plan = options.plan;
  auto target = bench::parse_target(options.address);
  if (!target) return target.error();
  plan.target = *std::move(target);
  const auto spread = bench::parse_spread(options.spread);
  if (!spread) return spread.error();
  plan.zipf = *spread;
  const auto mix = bench::parse_mix(options.mix);
  if (!mix) return mix.error();
  plan.mix = *mix;
  if (auto wrong = read_time("--duration", options.duration, plan.duration)) return *wrong;
  if (auto wrong = read_time("--warmup", options.warmup, plan.warmup)) return *wrong;
  if (auto wrong = read_time("--timeout", options.timeout, plan.timeout)) return *wrong;
  plan.seed = options.seed ? *options.seed : any_seed();
  plan.prefix = options.prefix ? *options.prefix : fmt::format("bench:{}:", plan.seed);
  if (auto wrong = bench::check(plan)) return *wrong;
  return plan;
}

// ---- What the daemon will go by

using Limits = std::vector<bench::KnownLimit>;

Result<Limits, Error> limits_over_resp(const bench::Plan& plan) {
  const auto lines = bench::ask_resp(
      plan, {"WEIR.EXPLAIN", plan.policy, bench::key_name(plan, 0), std::to_string(plan.permits)});
  if (!lines) return lines.error();
  Limits limits;
  for (const std::string& line : *lines) {
    auto limit = bench::read_explained(line);
    if (!limit) return limit.error();
    limits.push_back(*std::move(limit));
  }
  return limits;
}

// The answer of the HTTP door, if it is a good one.
Result<json, Error> ask_http(const bench::Plan& plan, std::string_view method,
                             std::string_view path, const std::string& body) {
  const HttpClient client{.url = plan.target.text(), .token = plan.password};
  const auto answer = client.ask(method, path, body);
  if (!answer) return answer.error();
  json said = json::parse(answer->body, nullptr, false);
  if (!said.is_object()) {
    return Error{
        fmt::format("{} does not answer as a daemon does (status {}): is it the RESP listener?",
                    plan.target.text(), answer->status)};
  }
  if (answer->status != 200) {
    return Error{fmt::format("{} says: {}", plan.target.text(),
                             said.value("detail", fmt::format("status {}", answer->status)))};
  }
  return said;
}

Result<Limits, Error> limits_over_http(const bench::Plan& plan) {
  const json body{
      {"policy", plan.policy}, {"key", bench::key_name(plan, 0)}, {"permits", plan.permits}};
  const auto said = ask_http(plan, "POST", "/v1/explain",
                             body.dump(-1, ' ', false, json::error_handler_t::replace));
  if (!said) return said.error();
  Limits limits;
  for (const json& each : said->at("limits")) {
    auto rule = policy::parse_limit(each.at("limit").get<std::string>());
    if (!rule) return Error{"cannot read what the daemon says of its limit: " + each.dump()};
    limits.push_back({.rule = *std::move(rule),
                      .cost = each.at("cost").get<Permits>(),
                      .shadow = each.at("shadow").get<bool>()});
  }
  return limits;
}

// Asks the daemon what its policy's limits are, which also shows whether it is there and lets us
// in. They are those of the first key: overrides may give others to some.
Result<Limits, Error> limits_of(const bench::Plan& plan) {
  const bool resp = plan.target.door == bench::Door::resp;
  if (!plan.policy.empty()) return resp ? limits_over_resp(plan) : limits_over_http(plan);
  if (resp) {
    if (const auto answer = bench::ask_resp(plan, {"PING"}); !answer) return answer.error();
  } else if (const auto answer = ask_http(plan, "GET", "/v1/policies", {}); !answer) {
    return answer.error();
  }
  auto own = bench::own_limit(plan);
  if (!own) return own.error();
  return Limits{{.rule = *std::move(own), .cost = plan.permits}};
}

std::string text_of(const bench::Plan& plan, const Limits& limits) {
  if (plan.policy.empty()) return plan.limit;
  std::string text;
  for (const bench::KnownLimit& limit : limits) {
    text += (text.empty() ? "" : ", ") + policy::to_text(limit.rule);
  }
  return text;
}

// ---- The run

// Rewrites one line on a terminal, and takes it away in the end.
class ProgressLine {
 public:
  explicit ProgressLine(const bench::Plan& plan) : plan_(plan), shown_(isatty(STDERR_FILENO)) {}
  ~ProgressLine() {
    if (shown_) std::cerr << "\r\x1b[K" << std::flush;
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  std::function<void(const bench::Ran&)> updates() {
    if (!shown_) return {};
    return [this](const bench::Ran& ran) {
      std::cerr << "\r" << bench::progress_line(plan_, ran) << "\x1b[K" << std::flush;
    };
  }

 private:
  const bench::Plan& plan_;
  const bool shown_;
};

Result<bench::Ran, Error> run(const bench::Plan& plan, bench::Asked* asked) {
  ProgressLine line(plan);
  return bench::run(plan, asked, line.updates());
}

int bench_daemon(const BenchOptions& options) {
  const auto plan = plan_of(options);
  if (!plan) return fail("bench: " + plan.error().message, kUsage);
  auto limits = limits_of(*plan);
  if (!limits) return fail("bench: " + limits.error().message);
  const std::string text = text_of(*plan, *limits);
  const auto ideal = bench::Ideal::of(*plan, *std::move(limits));
  bench::Asked asked(ideal ? plan->keys : 0);
  const auto ran = run(*plan, ideal ? &asked : nullptr);
  if (!ran) return fail("bench: " + ran.error().message);
  bench::Report report{.plan = *plan, .ran = *ran, .limits = text};
  if (ideal) {
    report.ideal = ideal->for_all(asked, ran->elapsed);
  } else {
    report.no_ideal = ideal.error().message;
  }
  options.as_json ? print_json(bench::to_json(report)) : void(std::cout << bench::to_text(report));
  return ran->tally.errors.empty() ? kSuccess : kFailed;
}

constexpr const char* kFooter =
    "With --rate (open loop) requests are due at a fixed pace and latency counts from when a "
    "request\n"
    "was due: a stall shows with everybody whom it kept waiting. Without (closed loop) a stalled\n"
    "daemon is asked less, and latency counts from sending.\n"
    "\n"
    "admitted / ideal: takes that passed by the most that token buckets could have let pass, burst "
    "+\n"
    "rate × time for each key, or what was asked for it if that is less. Above 1 more passed than "
    "the\n"
    "limit says. Each run has keys of its own, unless --seed is the same.\n"
    "\n"
    "Refusals are no errors. Exit code: 0, 1 if there were errors or there is no daemon, 2 usage.";

void add_what_options(CLI::App* command, BenchOptions& options) {
  bench::Plan& plan = options.plan;
  command->add_option("--policy", plan.policy, "A policy of the daemon; without, --limit");
  command->add_option("--limit", plan.limit, "A limit that comes with the call")
      ->capture_default_str();
  command->add_option("--keys", plan.keys, "How many there are")->capture_default_str();
  command->add_option("--spread", options.spread, "How often each: uniform, zipf or zipf:S")
      ->capture_default_str();
  command->add_option("--mix", options.mix, "Parts of take, peek, settle: take=90,peek=10")
      ->capture_default_str();
  command->add_option("--permits", plan.permits, "Of each request")
      ->check(CLI::Range(Permits{0}, Permits{1'000'000'000'000}))
      ->capture_default_str();
  command->add_option("--prefix", options.prefix, "Of the keys; default: bench:SEED:");
  command->add_option("--seed", options.seed, "The same keys in the same order; default: any");
}

void add_how_options(CLI::App* command, BenchOptions& options) {
  bench::Plan& plan = options.plan;
  command->add_option("--connections", plan.connections, "How many")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command->add_option("--pipeline", plan.pipeline, "Requests in flight on each connection")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command->add_option("--threads", plan.threads, "Each with a part of the connections")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--rate", plan.rate, "Open loop: requests a second, in all")
      ->check([](const std::string& text) {
        double rate = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
        const bool good = error == std::errc{} && end == text.data() + text.size() && rate > 0;
        return good ? std::string{} : "a number above 0, not " + text;
      });
  CLI::Option* duration =
      command->add_option("--duration", options.duration, "How long")->capture_default_str();
  command->add_option("--requests", plan.requests, "How many, instead of how long")
      ->transform(whole_number(1))
      ->excludes(duration);
  command->add_option("--warmup", options.warmup, "Before that, not measured")
      ->capture_default_str();
  command->add_option("--timeout", options.timeout, "A request without an answer is an error then")
      ->capture_default_str();
  command->add_flag("--spin", plan.spin, "Never sleep: exacter, for a whole processor each thread");
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand("bench", "Measure a daemon: its rate and its latency");
  command
      ->add_option("ADDRESS", options->address,
                   "Where it is: host:port is RESP, http://host:port HTTP")
      ->capture_default_str();
  add_what_options(command, *options);
  add_how_options(command, *options);
  command->add_option("--password,--token", options->plan.password, "If the daemon has one")
      ->envname("WEIR_TOKEN");
  command->add_flag("--json", options->as_json, "Report as JSON");
  command->footer(kFooter);
  command->callback([options, &exit_code] { exit_code = bench_daemon(*options); });
}

}  // namespace weir::cli
