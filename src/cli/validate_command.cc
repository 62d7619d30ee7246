#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/report.h"
#include "policy/config.h"

namespace weir::cli {

namespace {

struct Options {
  std::vector<std::string> files;
  bool json = false;
};

// One file that was read.
struct FileReport {
  policy::Source source;
  policy::Problems problems;
  policy::Problems warnings;
  std::size_t policies = 0;
  std::size_t limits = 0;
};

std::size_t limits_of(const policy::Policy& policy) {
  std::size_t count = policy.limits.size();
  for (const policy::Override& own : policy.overrides) count += own.limits.size();
  for (const policy::Shift& shift : policy.schedule) count += shift.limits.size();
  return count;
}

FileReport read_file(policy::Source source) {
  FileReport report{.source = std::move(source), .problems = {}, .warnings = {}};
  const policy::Config config =
      policy::read_config(report.source, report.problems, report.warnings);
  report.policies = config.policies.size();
  for (const auto& [name, policy] : config.policies) report.limits += limits_of(policy);
  return report;
}

std::string counted(std::size_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

void print_report(const FileReport& report) {
  print_warnings(report.source, report.warnings);
  print_problems(report.source, report.problems);
  if (!report.problems.empty()) return;
  fmt::print("{}: {}, {}\n", report.source.name, counted(report.policies, "policy", "policies"),
             counted(report.limits, "limit", "limits"));
}

nlohmann::json to_json(const FileReport& report) {
  return {{"file", report.source.name},
          {"policies", report.policies},
          {"limits", report.limits},
          {"problems", problems_json(report.problems)},
          {"warnings", problems_json(report.warnings)}};
}

int run(const Options& options) {
  bool good = true;
  nlohmann::json reports = nlohmann::json::array();
  for (const std::string& path : options.files) {
    auto source = policy::Source::read(path);
    if (!source) {
      fmt::print(stderr, "weir validate: {}\n", source.error());
      return kUsage;
    }
    const FileReport report = read_file(*std::move(source));
    good = good && report.problems.empty();
    if (options.json) {
      reports.push_back(to_json(report));
    } else {
      print_report(report);
    }
  }
  if (options.json) print_json({{"valid", good}, {"files", std::move(reports)}});
  return good ? kSuccess : kFailed;
}

}  // namespace

void add_validate_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("validate", "Check policy files: everything that is wrong, and where");
  command->add_option("files", options->files, "Policy files (YAML)")
      ->required()
      ->type_name("FILE");
  command->add_flag("--json", options->json, "Report as JSON");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace weir::cli
