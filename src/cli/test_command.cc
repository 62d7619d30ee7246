#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands.h"
#include "cli/report.h"
#include "store/link_access.h"
#include "timeline/timeline.h"
#include "weir/redis.h"

namespace weir::cli {

namespace {

struct TestOptions {
  std::vector<std::string> files;
  std::string config;
  std::string store;
  bool json = false;
};

// The result of one file of timelines.
struct TestReport {
  policy::Source source;
  policy::Problems problems;
  std::size_t passed = 0;
  std::size_t failed = 0;
  struct FailedCase {
    std::string name;
    policy::SourcePosition place;
    std::vector<timeline::Mismatch> mismatches;
  };
  std::vector<FailedCase> failures;
  // Cases that cannot run on a shared store, whose numbers have a lower resolution.
  struct SkippedCase {
    std::string name;
    policy::SourcePosition place;
    std::string why;
  };
  std::vector<SkippedCase> left_out{};
};

// Further failures are only counted.
constexpr std::size_t kShownFailures = 50;

// Shows the progress of a long file in one line on stderr, if stderr is a terminal.
class Progress {
 public:
  Progress(const std::string& name, const std::vector<timeline::Case>& cases)
      : name_(name), total_(cases.size()), shows_(is_long(cases) && isatty(STDERR_FILENO) != 0) {}

  void at(std::size_t done) {
    const auto now = std::chrono::steady_clock::now();
    if (!shows_ || now < next_) return;
    next_ = now + std::chrono::milliseconds{200};
    fmt::print(stderr, "\r{}: {} of {} cases", name_, done, total_);
  }

  ~Progress() {
    if (shows_) fmt::print(stderr, "\r\x1b[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  // A file with this many calls may take a second.
  static bool is_long(const std::vector<timeline::Case>& cases) {
    constexpr std::int64_t min_calls = 100'000;
    std::int64_t arrivals = 0;
    for (const timeline::Case& test : cases) {
      for (const timeline::Step& step : test.steps) arrivals += step.n;
    }
    return arrivals >= min_calls;
  }

  const std::string& name_;
  std::size_t total_;
  bool shows_;
  std::chrono::steady_clock::time_point next_{};
};

// The store that cases run on.
class TestBackend {
 public:
  // An empty name: the algorithms without a store. Otherwise `memory`, or the URL of a Redis.
  static Result<TestBackend, Error> of(const std::string& name) {
    TestBackend backend;
    if (name.empty()) return backend;
    backend.store_ = timeline::Store::memory;
    if (name == "memory") return backend;
    if (name.find("://") == std::string::npos) {
      return Error{
          fmt::format("unknown store \"{}\": write --store memory, or --store "
                      "redis://127.0.0.1:6379",
                      name)};
    }
    // Generous: a timeout fails a test, and no service waits for the response.
    auto fleet = RedisFleet::open(name, {.timeout = std::chrono::seconds{10}});
    if (!fleet) return fleet.error();
    backend.fleet_ = *std::move(fleet);
    backend.link_ = backend.fleet_->connect();
    backend.names_ =
        fmt::format("{}-{}", std::chrono::system_clock::now().time_since_epoch().count(), getpid());
    return backend;
  }

  // Why a case cannot run there, if it cannot.
  std::optional<std::string> why_not_runnable(const timeline::Case& test) const {
    return link_ ? timeline::why_not_on_shared_store(test) : std::nullopt;
  }

  std::vector<timeline::Mismatch> run(const timeline::Case& test) {
    if (!link_) return timeline::run(test, store_);
    return timeline::run(test, {.store = &detail::LinkAccess::store(*link_),
                                .run = fmt::format("{}-{}", names_, ++runs_),
                                .wait = [this] { link_->wait(std::chrono::seconds{1}); }});
  }

 private:
  timeline::Store store_ = timeline::Store::core;
  std::unique_ptr<RedisFleet> fleet_{};
  std::unique_ptr<Link> link_{};
  std::string names_{};  // of this run, so that it finds no keys of others
  int runs_ = 0;
};

TestReport run_file(policy::Source source, const policy::PolicySet* policies,
                    TestBackend& backend) {
  TestReport report{.source = std::move(source), .problems = {}, .failures = {}};
  const auto cases = timeline::read_cases(report.source, policies, report.problems);
  if (!report.problems.empty()) return report;
  Progress progress(report.source.name, cases);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    progress.at(i);
    if (const auto why = backend.why_not_runnable(cases[i])) {
      report.left_out.push_back({cases[i].name, cases[i].place, *why});
      continue;
    }
    auto mismatches = backend.run(cases[i]);
    if (mismatches.empty()) {
      ++report.passed;
    } else {
      ++report.failed;
      report.failures.push_back({cases[i].name, cases[i].place, std::move(mismatches)});
    }
  }
  return report;
}

// ---- Text

void print_failure(const policy::Source& source, const TestReport::FailedCase& failure) {
  fmt::print("FAILED {}:{}: {}\n", source.name, failure.place.line, failure.name);
  std::size_t step = 0;
  for (const timeline::Mismatch& mismatch : failure.mismatches) {
    if (mismatch.step != step) {
      step = mismatch.step;
      const auto line = source.line(mismatch.place.line);
      const auto start = std::min(line.find_first_not_of(" \t"), line.size());
      fmt::print("  step {} ({}:{}): {}\n", step, source.name, mismatch.place.line,
                 line.substr(start, 120));
    }
    fmt::print("    {:<12} expected {}\n    {:<12} got      {}\n", mismatch.what, mismatch.expected,
               "", mismatch.actual);
  }
}

std::string left_out(std::size_t count) {
  return count == 0 ? "" : fmt::format(", {} skipped", count);
}

void print_report(const TestReport& report) {
  if (!report.problems.empty()) {
    print_problems(report.source, report.problems, ShowProblems::first);
    return;
  }
  for (std::size_t i = 0; i < std::min(report.failures.size(), kShownFailures); ++i) {
    print_failure(report.source, report.failures[i]);
  }
  if (report.failures.size() > kShownFailures) {
    fmt::print("and {} more failed cases\n", report.failures.size() - kShownFailures);
  }
  for (const TestReport::SkippedCase& out : report.left_out) {
    fmt::print("skipped {}:{}: {}: {}\n", report.source.name, out.place.line, out.name, out.why);
  }
  fmt::print("{}: {} passed, {} failed{}\n", report.source.name, report.passed, report.failed,
             left_out(report.left_out.size()));
}

// ---- JSON

nlohmann::json to_json(const TestReport& report) {
  nlohmann::json failures = nlohmann::json::array();
  for (const TestReport::FailedCase& failure : report.failures) {
    for (const timeline::Mismatch& mismatch : failure.mismatches) {
      failures.push_back({{"case", failure.name},
                          {"step", mismatch.step},
                          {"line", mismatch.place.line},
                          {"field", mismatch.what},
                          {"expected", mismatch.expected},
                          {"actual", mismatch.actual}});
    }
  }
  return {{"file", report.source.name},
          {"passed", report.passed},
          {"failed", report.failed},
          {"left_out", report.left_out.size()},
          {"problems", problems_json(report.problems)},
          {"failures", std::move(failures)}};
}

struct Totals {
  std::size_t passed = 0;
  std::size_t failed = 0;
  std::size_t left_out = 0;
  bool unreadable = false;

  void add(const TestReport& report) {
    passed += report.passed;
    failed += report.failed;
    left_out += report.left_out.size();
    unreadable = unreadable || !report.problems.empty();
  }
  int exit_code() const { return failed == 0 && !unreadable ? kSuccess : kFailed; }
};

std::optional<policy::PolicySet> read_config(const std::string& path) {
  const auto source = policy::Source::read(path);
  if (!source) {
    fmt::print(stderr, "weir test: {}\n", source.error());
    return std::nullopt;
  }
  policy::Problems problems;
  auto policies = policy::read_policies(*source, problems);
  if (problems.empty()) return policies;
  print_problems(*source, problems, ShowProblems::first);
  return std::nullopt;
}

int run(const TestOptions& options) {
  auto backend = TestBackend::of(options.store);
  if (!backend) {
    fmt::print(stderr, "weir test: {}\n", backend.error().message);
    return kUsage;
  }
  std::optional<policy::PolicySet> policies;
  if (!options.config.empty()) {
    policies = read_config(options.config);
    if (!policies) return kFailed;
  }
  Totals totals;
  nlohmann::json reports = nlohmann::json::array();
  for (const std::string& path : options.files) {
    auto source = policy::Source::read(path);
    if (!source) {
      fmt::print(stderr, "weir test: {}\n", source.error());
      return kUsage;
    }
    const TestReport report =
        run_file(*std::move(source), policies ? &*policies : nullptr, *backend);
    totals.add(report);
    if (options.json) {
      reports.push_back(to_json(report));
    } else {
      print_report(report);
    }
  }
  if (options.json) {
    print_json(
        {{"passed", totals.passed}, {"failed", totals.failed}, {"files", std::move(reports)}});
  } else {
    fmt::print("{} passed, {} failed{}\n", totals.passed, totals.failed, left_out(totals.left_out));
  }
  return totals.exit_code();
}

}  // namespace

void add_test_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<TestOptions>();
  CLI::App* command = app.add_subcommand(
      "test", "Test limits with timelines: calls on a virtual clock, and expected decisions");
  command->add_option("files", options->files, "Timeline files (YAML)")
      ->required()
      ->type_name("FILE");
  command->add_option("--config", options->config, "Policy file, for cases that name a policy")
      ->type_name("FILE");
  command->add_option(
      "--store", options->store,
      "Store to run on: memory, or the URL of a Redis (redis://host:6379), where the "
      "test keys expire after an hour. Default: none, only the algorithms");
  command->add_flag("--json", options->json, "Print the report as JSON");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace weir::cli
