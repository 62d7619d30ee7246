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

#include "cli/api_call.h"
#include "cli/bench/bench_plan.h"
#include "cli/bench/bench_report.h"
#include "cli/bench/ideal_admissions.h"
#include "cli/bench/message.h"
#include "cli/bench/resp_query.h"
#include "cli/bench/run.h"
#include "cli/commands.h"
#include "cli/http_client.h"
#include "cli/report.h"
#include "policy/limit_text.h"

namespace weir::cli {

namespace {

using nlohmann::json;

// The options as given on the command line.
struct BenchOptions {
  bench::BenchPlan plan{};
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

Result<bench::BenchPlan, Error> plan_of(const BenchOptions& options) {
  bench::BenchPlan plan = options.plan;
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

// ---- The limits of the daemon

using KnownLimits = std::vector<bench::KnownLimit>;

Result<KnownLimits, Error> limits_over_resp(const bench::BenchPlan& plan) {
  const auto lines = bench::query_resp(
      plan, {"WEIR.EXPLAIN", plan.policy, bench::key_name(plan, 0), std::to_string(plan.permits)});
  if (!lines) return lines.error();
  KnownLimits limits;
  for (const std::string& line : *lines) {
    auto limit = bench::read_explained(line);
    if (!limit) return limit.error();
    limits.push_back(*std::move(limit));
  }
  return limits;
}

// Calls the HTTP listener. Any status but 200 is an error.
Result<json, Error> query_http(const bench::BenchPlan& plan, std::string_view method,
                               std::string_view path, const std::string& request) {
  const HttpClient client{.url = plan.target.text(), .token = plan.password};
  const auto answer = client.call(method, path, request);
  if (!answer) return answer.error();
  json body = json::parse(answer->body, nullptr, false);
  if (!body.is_object()) {
    return Error{
        fmt::format("the response of {} is not JSON (status {}): it must be the HTTP listener",
                    plan.target.text(), answer->status)};
  }
  if (answer->status != 200) {
    return Error{fmt::format("{} says: {}", plan.target.text(),
                             body.value("detail", fmt::format("status {}", answer->status)))};
  }
  return body;
}

Result<KnownLimits, Error> limits_over_http(const bench::BenchPlan& plan) {
  const json body{
      {"policy", plan.policy}, {"key", bench::key_name(plan, 0)}, {"permits", plan.permits}};
  const auto response = query_http(plan, "POST", "/v1/explain",
                                   body.dump(-1, ' ', false, json::error_handler_t::replace));
  if (!response) return response.error();
  KnownLimits limits;
  for (const json& each : response->at("limits")) {
    auto rule = policy::parse_limit(each.at("limit").get<std::string>());
    if (!rule) return Error{"cannot parse the daemon's description of a limit: " + each.dump()};
    limits.push_back({.rule = *std::move(rule),
                      .cost = each.at("cost").get<Permits>(),
                      .shadow = each.at("shadow").get<bool>()});
  }
  return limits;
}

// Queries the limits of the policy. The query also proves that the daemon is reachable and accepts
// the password. The limits are those of the first key: overrides may give other keys other limits.
Result<KnownLimits, Error> limits_of(const bench::BenchPlan& plan) {
  const bool resp = plan.target.protocol == bench::WireProtocol::resp;
  if (!plan.policy.empty()) return resp ? limits_over_resp(plan) : limits_over_http(plan);
  if (resp) {
    if (const auto answer = bench::query_resp(plan, {"PING"}); !answer) return answer.error();
  } else if (const auto answer = query_http(plan, "GET", "/v1/policies", {}); !answer) {
    return answer.error();
  }
  auto own = bench::ad_hoc_limit(plan);
  if (!own) return own.error();
  return KnownLimits{{.rule = *std::move(own), .cost = plan.permits}};
}

std::string text_of(const bench::BenchPlan& plan, const KnownLimits& limits) {
  if (plan.policy.empty()) return plan.limit;
  std::string text;
  for (const bench::KnownLimit& limit : limits) {
    text += (text.empty() ? "" : ", ") + policy::to_text(limit.rule);
  }
  return text;
}

// ---- The run

// Shows the progress in one line on stderr, if it is a terminal. The destructor erases the line.
class ProgressLine {
 public:
  explicit ProgressLine(const bench::BenchPlan& plan)
      : plan_(plan), shown_(isatty(STDERR_FILENO)) {}
  ~ProgressLine() {
    if (shown_) std::cerr << "\r\x1b[K" << std::flush;
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  std::function<void(const bench::RunResult&)> updates() {
    if (!shown_) return {};
    return [this](const bench::RunResult& result) {
      std::cerr << "\r" << bench::progress_line(plan_, result) << "\x1b[K" << std::flush;
    };
  }

 private:
  const bench::BenchPlan& plan_;
  const bool shown_;
};

Result<bench::RunResult, Error> run(const bench::BenchPlan& plan,
                                    bench::TakesPerKey* takes_per_key) {
  ProgressLine line(plan);
  return bench::run(plan, takes_per_key, line.updates());
}

int bench_daemon(const BenchOptions& options) {
  const auto plan = plan_of(options);
  if (!plan) return fail("bench: " + plan.error().message, kUsage);
  auto limits = limits_of(*plan);
  if (!limits) return fail("bench: " + limits.error().message);
  const std::string text = text_of(*plan, *limits);
  const auto ideal = bench::IdealAdmissions::of(*plan, *std::move(limits));
  bench::TakesPerKey takes_per_key(ideal ? plan->keys : 0);
  const auto result = run(*plan, ideal ? &takes_per_key : nullptr);
  if (!result) return fail("bench: " + result.error().message);
  bench::BenchReport report{.plan = *plan, .result = *result, .limits = text};
  if (ideal) {
    report.ideal = ideal->for_all(takes_per_key, result->elapsed);
  } else {
    report.no_ideal = ideal.error().message;
  }
  options.as_json ? print_json(bench::to_json(report)) : void(std::cout << bench::to_text(report));
  return result->tally.errors.empty() ? kSuccess : kFailed;
}

constexpr const char* kFooter =
    "With --rate (open loop), requests are due at a fixed rate, and latency counts from when a\n"
    "request was due: a stall shows in every request that it delays. Without --rate (closed "
    "loop),\n"
    "latency counts from sending, and a stalled daemon simply gets fewer requests.\n"
    "\n"
    "admitted / ideal: admitted takes, divided by the maximum that token buckets could have "
    "admitted.\n"
    "For each key, that is burst + rate × time, or the number of takes if that is less. Above 1, "
    "more\n"
    "passed than the limit allows. Each run uses new keys, unless --seed is the same.\n"
    "\n"
    "Refusals are not errors. Exit codes: 0 success, 1 errors or no daemon, 2 wrong usage.";

void add_request_options(CLI::App* command, BenchOptions& options) {
  bench::BenchPlan& plan = options.plan;
  command->add_option("--policy", plan.policy,
                      "Policy of the daemon to measure; without it, --limit");
  command->add_option("--limit", plan.limit, "Ad hoc limit that each request brings")
      ->capture_default_str();
  command->add_option("--keys", plan.keys, "Number of keys")->capture_default_str();
  command
      ->add_option("--spread", options.spread,
                   "Distribution over the keys: uniform, zipf or zipf:S")
      ->capture_default_str();
  command->add_option("--mix", options.mix, "Weights of take, peek and settle: take=90,peek=10")
      ->capture_default_str();
  command->add_option("--permits", plan.permits, "Permits of each request")
      ->check(CLI::Range(Permits{0}, Permits{1'000'000'000'000}))
      ->capture_default_str();
  command->add_option("--prefix", options.prefix, "Prefix of the keys. Default: bench:SEED:");
  command->add_option("--seed", options.seed, "Seed of the keys and their order. Default: random");
}

void add_load_options(CLI::App* command, BenchOptions& options) {
  bench::BenchPlan& plan = options.plan;
  command->add_option("--connections", plan.connections, "Number of connections")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command->add_option("--pipeline", plan.pipeline, "Requests in flight on each connection")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command->add_option("--threads", plan.threads, "Number of threads, which share the connections")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--rate", plan.rate, "Open loop: requests per second in total")
      ->check([](const std::string& text) {
        double rate = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
        const bool good = error == std::errc{} && end == text.data() + text.size() && rate > 0;
        return good ? std::string{} : "must be a number above 0, not " + text;
      });
  CLI::Option* duration = command->add_option("--duration", options.duration, "How long to measure")
                              ->capture_default_str();
  command->add_option("--requests", plan.requests, "Number of requests, instead of --duration")
      ->transform(whole_number(1))
      ->excludes(duration);
  command->add_option("--warmup", options.warmup, "How long to run before measuring")
      ->capture_default_str();
  command
      ->add_option("--timeout", options.timeout,
                   "After this time, a request without a response is an error")
      ->capture_default_str();
  command->add_flag("--spin", plan.spin,
                    "Never sleep: more exact, but each thread uses a whole CPU");
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand("bench", "Measure the rate and the latency of a daemon");
  command
      ->add_option("ADDRESS", options->address,
                   "Address of the daemon: host:port for RESP, http://host:port for HTTP")
      ->capture_default_str();
  add_request_options(command, *options);
  add_load_options(command, *options);
  command->add_option("--password,--token", options->plan.password, "Password of the daemon")
      ->envname("WEIR_TOKEN");
  command->add_flag("--json", options->as_json, "Print the report as JSON");
  command->footer(kFooter);
  command->callback([options, &exit_code] { exit_code = bench_daemon(*options); });
}

}  // namespace weir::cli
