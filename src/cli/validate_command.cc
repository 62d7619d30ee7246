#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/report.h"
#include "envoy/read_rules.h"
#include "gateway/config_yaml.h"

namespace weir::cli {

namespace {

struct ValidateOptions {
  std::vector<std::string> files;
  bool json = false;
};

// The result of one policy file.
struct ValidationReport {
  policy::Source source;
  policy::Problems problems;
  policy::Problems warnings;
  std::size_t policies = 0;
  std::size_t limits = 0;
  envoy::ReadRulesResult envoy{};  // the rules that `envoy_ratelimit` names

  bool is_good() const {
    const bool has_rules = !names_envoy || envoy.rules != nullptr;
    return problems.empty() && has_rules;
  }
  bool names_envoy = false;
};

std::size_t limits_of(const policy::Policy& policy) {
  std::size_t count = policy.limits.size();
  for (const policy::Override& own : policy.overrides) count += own.limits.size();
  for (const policy::Shift& shift : policy.schedule) count += shift.limits.size();
  return count;
}

// Adds a problem, unless the message is empty.
void add(policy::Problems& problems, policy::SourcePosition place, const std::string& message) {
  if (message.empty()) return;
  problems.push_back({place, message});
  policy::sort_problems(problems);
}

ValidationReport read_file(policy::Source source) {
  ValidationReport report{.source = std::move(source), .problems = {}, .warnings = {}};
  const policy::DaemonConfig config =
      gateway::read_config(report.source, report.problems, report.warnings).config;
  report.policies = config.policies.size();
  for (const auto& [name, policy] : config.policies) report.limits += limits_of(policy);
  report.names_envoy = !config.envoy.path.empty();
  if (report.names_envoy) {
    report.envoy = envoy::read_rules(
        config.envoy.path,
        {.merge_domains = config.envoy.merge_domains, .sharing = policy::sharing_of(config)});
    add(report.problems, config.envoy_path_at, report.envoy.error);
    add(report.warnings, config.envoy_path_at, report.envoy.warning);
  }
  return report;
}

std::string counted(std::size_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::vector<std::string> names_of(const envoy::ReadRulesResult& loaded) {
  std::vector<std::string> names;
  for (const envoy::FileReport& file : loaded.files) names.push_back(file.source.name);
  return names;
}

void print_report(const ValidationReport& report) {
  print_warnings(report.source, report.warnings);
  print_problems(report.source, report.problems, ShowProblems::all);
  for (const envoy::FileReport& file : report.envoy.files) {
    print_warnings(file.source, file.warnings);
    print_problems(file.source, file.problems, ShowProblems::all);
  }
  if (!report.is_good()) return;
  fmt::print("{}: {}, {}\n", report.source.name, counted(report.policies, "policy", "policies"),
             counted(report.limits, "limit", "limits"));
  if (!report.names_envoy) return;
  const std::vector<std::string> names = names_of(report.envoy);
  fmt::print("{}: {}, {}\n", names.empty() ? "no file" : fmt::format("{}", fmt::join(names, ", ")),
             counted(report.envoy.rules->domains.size(), "domain", "domains"),
             counted(report.envoy.rules->count, "rate limit", "rate limits"));
}

nlohmann::json to_json(const ValidationReport& report) {
  nlohmann::json result{{"file", report.source.name},
                        {"policies", report.policies},
                        {"limits", report.limits},
                        {"problems", problems_json(report.problems)},
                        {"warnings", problems_json(report.warnings)}};
  if (!report.names_envoy) return result;
  nlohmann::json& envoy = result["envoy_ratelimit"] = nlohmann::json::array();
  for (const envoy::FileReport& file : report.envoy.files) {
    envoy.push_back({{"file", file.source.name},
                     {"problems", problems_json(file.problems)},
                     {"warnings", problems_json(file.warnings)}});
  }
  return result;
}

int run(const ValidateOptions& options) {
  bool good = true;
  nlohmann::json reports = nlohmann::json::array();
  for (const std::string& path : options.files) {
    auto source = policy::Source::read(path);
    if (!source) {
      fmt::print(stderr, "weir validate: {}\n", source.error());
      return kUsage;
    }
    const ValidationReport report = read_file(*std::move(source));
    good = good && report.is_good();
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
  auto options = std::make_shared<ValidateOptions>();
  CLI::App* command = app.add_subcommand(
      "validate", "Check policy files, and report every mistake with its position");
  command->add_option("files", options->files, "Policy files (YAML)")
      ->required()
      ->type_name("FILE");
  command->add_flag("--json", options->json, "Print the report as JSON");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace weir::cli
