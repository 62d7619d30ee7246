#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>

#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/import.h"
#include "cli/report.h"

namespace weir::cli {

std::string new_name(const std::string& name, std::set<std::string>& taken) {
  std::string chosen = name;
  for (int i = 2; !taken.insert(chosen).second; ++i) chosen = fmt::format("{}-{}", name, i);
  return chosen;
}

std::string in_yaml(std::string_view text) {
  // A JSON string is a valid YAML scalar with the same value.
  return nlohmann::json(std::string{text})
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string in_comment(std::string_view text) {
  std::string plain;
  for (const char c : text) plain += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  return is_utf8(plain) ? plain : "?";
}

namespace {

using Import = ImportResult (*)(const policy::Source&);

int run(const std::string& path, Import import) {
  const auto source = policy::Source::read(path);
  if (!source) {
    fmt::print(stderr, "weir import: {}\n", source.error());
    return kUsage;
  }
  const ImportResult imported = import(*source);
  if (!imported.problems.empty()) {
    for (const auto& [file, problems] : imported.problems) {
      print_problems(file, problems, ShowProblems::first);
    }
    return kFailed;
  }
  std::cout << imported.text;
  return kSuccess;
}

}  // namespace

void add_import_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "import", "Convert a configuration of nginx or envoyproxy/ratelimit to policies");
  static const std::map<std::string, Import> imports{{"envoy", import_envoy},
                                                     {"nginx", import_nginx}};
  const auto format = std::make_shared<std::string>();
  const auto path = std::make_shared<std::string>();
  const auto gateway = std::make_shared<bool>(false);
  command
      ->add_option("FORMAT", *format,
                   "envoy: rules of envoyproxy/ratelimit; nginx: limit_req and limit_conn")
      ->required()
      ->check(CLI::IsMember({"envoy", "nginx"}));
  command->add_option("file", *path, "Configuration file; for nginx also the output of nginx -T")
      ->required()
      ->type_name("FILE");
  command->add_flag("--gateway", *gateway,
                    "nginx only: add routes for the gateway of weir, which replaces nginx");
  command->callback([=, &exit_code] {
    const bool is_nginx = *format == "nginx";
    if (*gateway && !is_nginx) {
      exit_code = fail("--gateway works with nginx only: weir import nginx --gateway FILE", kUsage);
    } else {
      exit_code = run(*path, *gateway ? import_nginx_gateway : imports.at(*format));
    }
  });
}

}  // namespace weir::cli
