#include "cli/bench/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace weir::cli::bench {

namespace {

using nlohmann::json;

struct Percentile {
  const char* name;
  const char* field;
  double share;
};
constexpr std::array kPercentiles{Percentile{"p50", "p50", 0.5}, Percentile{"p90", "p90", 0.9},
                                  Percentile{"p99", "p99", 0.99},
                                  Percentile{"p99.9", "p99_9", 0.999}};

double seconds_of(const BenchPlan& plan, const RunResult& result) {
  return std::chrono::duration<double>(std::max(result.elapsed - plan.warmup, Nanos{0})).count();
}

double rate_of(const BenchPlan& plan, const RunResult& result) {
  const double seconds = seconds_of(plan, result);
  return seconds > 0 ? static_cast<double>(result.tally.answers) / seconds : 0;
}

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// 1,234,567
std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string grouped(double number) {
  if (number < 100) return fmt::format("{:.3g}", number);
  return grouped(static_cast<std::uint64_t>(number + 0.5));
}

// Three significant digits.
std::string three_digits(double number) {
  return fmt::format("{:.{}f}", number, number < 9.995 ? 2 : number < 99.95 ? 1 : 0);
}

std::string time_text(Nanos time) {
  const auto ns = static_cast<double>(time.count());
  if (ns < 1e6) return three_digits(ns / 1e3) + " µs";
  if (ns < 1e9) return three_digits(ns / 1e6) + " ms";
  return three_digits(ns / 1e9) + " s";
}

std::string bytes_text(std::uint64_t bytes) {
  const auto number = static_cast<double>(bytes);
  if (number < 1e6) return three_digits(number / 1e3) + " kB";
  if (number < 1e9) return three_digits(number / 1e6) + " MB";
  return three_digits(number / 1e9) + " GB";
}

const char* plural(std::uint64_t count) { return count == 1 ? "" : "s"; }

std::string what_text(const BenchReport& report) {
  const BenchPlan& plan = report.plan;
  std::string what = plan.policy.empty()
                         ? report.limits
                         : fmt::format("policy {} ({})", plan.policy, report.limits);
  if (plan.permits != 1) what += fmt::format(", {} permits each", plan.permits);
  const std::string spread = plan.zipf ? fmt::format(", zipf:{:g}", *plan.zipf) : "";
  return fmt::format("{}, {} key{}{}, seed {}", what, grouped(plan.keys), plural(plan.keys), spread,
                     plan.seed);
}

std::string how_text(const BenchPlan& plan) {
  const std::string loop =
      plan.open_loop()
          ? fmt::format("open loop, {}/s: latency counts from when a request was due",
                        grouped(plan.rate))
          : "closed loop: latency counts from sending, and a stalled server gets fewer requests";
  return fmt::format("{} connection{} with {} in flight, {} thread{}; {}", plan.connections,
                     plural(plan.connections), plan.pipeline, plan.threads, plural(plan.threads),
                     loop);
}

void add_row(std::string& text, std::string_view name, std::string_view value) {
  text += fmt::format("{:<10} {}\n", name, value);
}

void add_decisions(std::string& text, const BenchReport& report) {
  const auto& [take, peek, settle] = report.result.tally.decided;
  const auto with_share = [](std::uint64_t part, const Tally::DecisionCounts& of) {
    return fmt::format("{} ({:.1f} %)", grouped(part), 100 * share(part, of.allowed + of.refused));
  };
  if (report.plan.mix.has(RequestVerb::take)) {
    add_row(text, "admitted", with_share(take.allowed, take));
    add_row(text, "refused", with_share(take.refused, take));
  }
  if (report.plan.mix.has(RequestVerb::peek)) {
    add_row(text, "peeked",
            fmt::format("{}, of which {} would pass", grouped(peek.allowed + peek.refused),
                        with_share(peek.allowed, peek)));
  }
  if (report.plan.mix.has(RequestVerb::settle)) {
    add_row(text, "settled", grouped(settle.allowed + settle.refused));
  }
}

void add_ideal(std::string& text, const BenchReport& report) {
  const auto ratio = report.ideal_ratio();
  if (!ratio) return add_row(text, "ideal", "n/a: " + report.no_ideal);
  const bool warmed_up = report.plan.warmup > Nanos{0};
  add_row(text, "ideal",
          fmt::format("admitted / ideal {:.4f}: {} of at most {}{}", *ratio,
                      grouped(report.result.tally.admitted_ever), grouped(*report.ideal),
                      warmed_up ? ", with the warm-up" : ""));
}

void add_latency(std::string& text, const LatencyHistogram& latency) {
  std::string row;
  for (const Percentile& each : kPercentiles) {
    row += fmt::format("{} {}   ", each.name, time_text(latency.quantile(each.share)));
  }
  add_row(text, "latency", row + "max " + time_text(latency.max()));
}

void add_missing(std::string& text, const Tally& tally) {
  if (tally.unsent > 0) {
    add_row(text, "unsent",
            fmt::format("{} were due, but no connection was free: counted as "
                        "waiting until the end",
                        grouped(tally.unsent)));
  }
  if (tally.unanswered > 0) {
    add_row(text, "unanswered",
            fmt::format("{} at the end: counted as waiting until then", grouped(tally.unanswered)));
  }
}

// Replaces control characters: texts from the daemon must not move the cursor or break the line.
std::string printable(std::string_view text) {
  std::string shown{text};
  std::replace_if(
      shown.begin(), shown.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return shown;
}

void add_errors(std::string& text, const ErrorCounts& errors) {
  if (errors.empty()) return add_row(text, "errors", "none");
  add_row(text, "errors", grouped(errors.count()));
  for (const auto& [kind, entry] : errors.kinds()) {
    text += fmt::format("  {} × {}: {}\n", grouped(entry.count), printable(kind),
                        printable(entry.example));
  }
}

json latency_json(const LatencyHistogram& latency) {
  const auto micros = [](double ns) { return ns / 1e3; };
  json fields{{"count", latency.count()},
              {"mean", micros(latency.mean_ns())},
              {"max", micros(static_cast<double>(latency.max().count()))}};
  for (const Percentile& each : kPercentiles) {
    fields[each.field] = micros(static_cast<double>(latency.quantile(each.share).count()));
  }
  return fields;
}

json plan_json(const BenchReport& report) {
  const BenchPlan& plan = report.plan;
  json mix = json::object();
  for (std::size_t i = 0; i < kVerbNames.size(); ++i) {
    if (plan.mix.parts[i] > 0) mix[kVerbNames[i]] = plan.mix.parts[i];
  }
  return {{"address", plan.target.text()},
          {"protocol", plan.target.protocol == WireProtocol::http ? "http" : "resp"},
          {"policy", plan.policy.empty() ? json() : json(plan.policy)},
          {"limits", report.limits},
          {"permits", plan.permits},
          {"mix", std::move(mix)},
          {"keys", plan.keys},
          {"zipf", plan.zipf ? json(*plan.zipf) : json()},
          {"seed", plan.seed},
          {"connections", plan.connections},
          {"pipeline", plan.pipeline},
          {"threads", plan.threads},
          {"loop", plan.open_loop() ? "open" : "closed"},
          {"asked_rate", plan.open_loop() ? json(plan.rate) : json()},
          {"warmup_seconds", std::chrono::duration<double>(plan.warmup).count()}};
}

json decisions_json(const BenchReport& report) {
  json verbs = json::object();
  for (std::size_t i = 0; i < kVerbNames.size(); ++i) {
    if (report.plan.mix.parts[i] == 0) continue;
    const Tally::DecisionCounts& decided = report.result.tally.decided[i];
    verbs[kVerbNames[i]] = {{"allowed", decided.allowed}, {"refused", decided.refused}};
  }
  return verbs;
}

json ideal_json(const BenchReport& report) {
  const auto ratio = report.ideal_ratio();
  if (!ratio) return {{"requests", nullptr}, {"ratio", nullptr}, {"reason", report.no_ideal}};
  return {{"requests", *report.ideal},
          {"admitted", report.result.tally.admitted_ever},
          {"ratio", *ratio}};
}

json errors_json(const ErrorCounts& errors) {
  json kinds = json::object();
  for (const auto& [kind, entry] : errors.kinds()) {
    kinds[kind] = {{"count", entry.count}, {"example", entry.example}};
  }
  return {{"count", errors.count()}, {"kinds", std::move(kinds)}};
}

}  // namespace

double BenchReport::seconds() const { return seconds_of(plan, result); }
double BenchReport::rate() const { return rate_of(plan, result); }

std::optional<double> BenchReport::ideal_ratio() const {
  if (!ideal) return std::nullopt;
  // 0 / 0 counts as 1: all of the ideal was admitted.
  if (*ideal == 0)
    return result.tally.admitted_ever == 0 ? 1.0 : static_cast<double>(result.tally.admitted_ever);
  return static_cast<double>(result.tally.admitted_ever) / static_cast<double>(*ideal);
}

std::string to_text(const BenchReport& report) {
  const BenchPlan& plan = report.plan;
  const Tally& tally = report.result.tally;
  std::string text = fmt::format("weir bench {}: {}\n{}\n\n", plan.target.text(), what_text(report),
                                 how_text(plan));
  if (report.result.interrupted) text += "interrupted: these are the figures up to then\n";
  add_row(text, "requests",
          fmt::format("{} in {:.2f} s", grouped(tally.answers), report.seconds()));
  add_row(text, "rate",
          plan.open_loop()
              ? fmt::format("{}/s of {}/s requested", grouped(report.rate()), grouped(plan.rate))
              : fmt::format("{}/s", grouped(report.rate())));
  add_row(text, "bytes",
          fmt::format("{} sent, {} received", bytes_text(tally.bytes_sent),
                      bytes_text(tally.bytes_received)));
  add_decisions(text, report);
  add_ideal(text, report);
  add_latency(text, tally.latency);
  add_missing(text, tally);
  add_errors(text, tally.errors);
  return text;
}

json to_json(const BenchReport& report) {
  const Tally& tally = report.result.tally;
  const Tally::DecisionCounts& takes = tally.decided[static_cast<std::size_t>(RequestVerb::take)];
  return {{"plan", plan_json(report)},
          {"interrupted", report.result.interrupted},
          {"seconds", report.seconds()},
          {"requests", tally.answers},
          {"rate", report.rate()},
          {"bytes_sent", tally.bytes_sent},
          {"bytes_received", tally.bytes_received},
          {"admitted", takes.allowed},
          {"refused", takes.refused},
          {"verbs", decisions_json(report)},
          {"ideal", ideal_json(report)},
          {"latency_us", latency_json(tally.latency)},
          {"unsent", tally.unsent},
          {"unanswered", tally.unanswered},
          {"errors", errors_json(tally.errors)}};
}

std::string progress_line(const BenchPlan& plan, const RunResult& result) {
  std::uint64_t refused = 0;
  for (const Tally::DecisionCounts& decided : result.tally.decided) refused += decided.refused;
  const std::string errors =
      result.tally.errors.empty()
          ? ""
          : fmt::format("   {} errors", grouped(result.tally.errors.count()));
  return fmt::format("{:.1f} s{}   {}/s   refused {:.1f} %   p99 {}{}",
                     std::chrono::duration<double>(result.elapsed).count(),
                     result.elapsed < plan.warmup ? " (warming up)" : "",
                     grouped(rate_of(plan, result)), 100 * share(refused, result.tally.answers),
                     time_text(result.tally.latency.quantile(0.99)), errors);
}

}  // namespace weir::cli::bench
