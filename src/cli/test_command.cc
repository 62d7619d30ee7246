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

// One file that was run.
struct TestReport {
  policy::Source source;
  policy::Problems problems;
  std::size_t passed = 0;
  std::size_t failed = 0;
  struct Failure {
    std::string name;
    policy::Place place;
    std::vector<timeline::Mismatch> mismatches;
  };
  std::vector<Failure> failures;
  // Cases that cannot run on the store, which has coarser numbers.
  struct LeftOut {
    std::string name;
    policy::Place place;
    std::string why;
  };
  std::vector<LeftOut> left_out{};
};

// Failures beyond these are only counted: whoever has so many starts with the first.
constexpr std::size_t kShownFailures = 50;

// A line on the terminal that says how far a long file is; nothing where nobody looks.
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
  // What takes so many calls may take a second.
  static bool is_long(const std::vector<timeline::Case>& cases) {
    constexpr std::int64_t many = 100'000;
    std::int64_t arrivals = 0;
    for (const timeline::Case& test : cases) {
      for (const timeline::Step& step : test.steps) arrivals += step.n;
    }
    return arrivals >= many;
  }

  const std::string& name_;
  std::size_t total_;
  bool shows_;
  std::chrono::steady_clock::time_point next_{};
};

// Where cases run.
class Stage {
 public:
  // The bare algorithms without a name, `memory`, or the address of a Redis. The error of another.
  static Result<Stage, Error> of(const std::string& name) {
    Stage stage;
    if (name.empty()) return stage;
    stage.store_ = timeline::Store::memory;
    if (name == "memory") return stage;
    if (name.find("://") == std::string::npos) {
      return Error{
          fmt::format("no store \"{}\": write --store memory, or --store "
                      "redis://127.0.0.1:6379",
                      name)};
    }
    // Nobody waits for answers but people.
    auto fleet = RedisFleet::open(name, {.timeout = std::chrono::seconds{10}});
    if (!fleet) return fleet.error();
    stage.fleet_ = *std::move(fleet);
    stage.link_ = stage.fleet_->connect();
    stage.names_ =
        fmt::format("{}-{}", std::chrono::system_clock::now().time_since_epoch().count(), getpid());
    return stage;
  }

  // Why a case cannot run there, if it cannot.
  std::optional<std::string> unfit(const timeline::Case& test) const {
    return link_ ? timeline::unfit_for_shared(test) : std::nullopt;
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

TestReport run_file(policy::Source source, const policy::PolicySet* policies, Stage& stage) {
  TestReport report{.source = std::move(source), .problems = {}, .failures = {}};
  const auto cases = timeline::read_cases(report.source, policies, report.problems);
  if (!report.problems.empty()) return report;
  Progress progress(report.source.name, cases);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    progress.at(i);
    if (const auto why = stage.unfit(cases[i])) {
      report.left_out.push_back({cases[i].name, cases[i].place, *why});
      continue;
    }
    auto mismatches = stage.run(cases[i]);
    if (mismatches.empty()) {
      ++report.passed;
    } else {
      ++report.failed;
      report.failures.push_back({cases[i].name, cases[i].place, std::move(mismatches)});
    }
  }
  return report;
}

// ---- For people

void print_failure(const policy::Source& source, const TestReport::Failure& failure) {
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
  return count == 0 ? "" : fmt::format(", {} left out", count);
}

void print_report(const TestReport& report) {
  if (!report.problems.empty()) {
    print_problems(report.source, report.problems, Shown::first);
    return;
  }
  for (std::size_t i = 0; i < std::min(report.failures.size(), kShownFailures); ++i) {
    print_failure(report.source, report.failures[i]);
  }
  if (report.failures.size() > kShownFailures) {
    fmt::print("and {} more failed cases\n", report.failures.size() - kShownFailures);
  }
  for (const TestReport::LeftOut& out : report.left_out) {
    fmt::print("left out {}:{}: {}: {}\n", report.source.name, out.place.line, out.name, out.why);
  }
  fmt::print("{}: {} passed, {} failed{}\n", report.source.name, report.passed, report.failed,
             left_out(report.left_out.size()));
}

// ---- For machines

nlohmann::json to_json(const TestReport& report) {
  nlohmann::json failures = nlohmann::json::array();
  for (const TestReport::Failure& failure : report.failures) {
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
  print_problems(*source, problems, Shown::first);
  return std::nullopt;
}

int run(const TestOptions& options) {
  auto stage = Stage::of(options.store);
  if (!stage) {
    fmt::print(stderr, "weir test: {}\n", stage.error().message);
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
    const TestReport report = run_file(*std::move(source), policies ? &*policies : nullptr, *stage);
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
      "test", "Run timelines: arrivals on a virtual clock, and what is expected of a limit");
  command->add_option("files", options->files, "Files of timelines (YAML)")
      ->required()
      ->type_name("FILE");
  command->add_option("--config", options->config, "Policy file, for cases that name a policy")
      ->type_name("FILE");
  command->add_option("--store", options->store,
                      "Run on this store: memory, or a Redis by its address (redis://host:6379), "
                      "where keys are made that live for an hour (default: the bare algorithms)");
  command->add_flag("--json", options->json, "Report as JSON");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace weir::cli
