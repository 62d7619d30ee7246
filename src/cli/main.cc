#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <exception>
#include <iostream>
#include <vector>

#include "base/suggest.h"
#include "cli/commands.h"

namespace {

// What is wrong with a first word that is no command; empty if nothing is. (CLI11 would say that a
// command is missing.)
std::string flaw_of_command(const CLI::App& app, const std::string& word) {
  if (word.starts_with('-')) return {};
  const std::vector<const CLI::App*> commands = app.get_subcommands({});
  std::vector<std::string_view> names;
  for (const CLI::App* command : commands) {
    if (command->get_name() == word) return {};
    names.push_back(command->get_name());
  }
  return "unknown command \"" + word + '"' + weir::did_you_mean(word, names);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"weir: rate limiting for any service", "weir"};
  app.set_version_flag("--version", "weir " WEIR_VERSION);
  app.require_subcommand(1);
  app.footer("Every command has --help. Exit code: 0 success, 1 refused or failed, 2 usage.");
  int exit_code = weir::cli::kSuccess;
  weir::cli::add_serve_command(app, exit_code);
  weir::cli::add_client_commands(app, exit_code);
  weir::cli::add_order_commands(app, exit_code);
  weir::cli::add_fleet_command(app, exit_code);
  weir::cli::add_bench_command(app, exit_code);
  weir::cli::add_top_command(app, exit_code);
  weir::cli::add_test_command(app, exit_code);
  weir::cli::add_validate_command(app, exit_code);
  weir::cli::add_import_command(app, exit_code);
  if (const std::string flaw = argc > 1 ? flaw_of_command(app, argv[1]) : ""; !flaw.empty()) {
    std::cerr << "weir: " << flaw << ": `weir --help` lists all\n";
    return weir::cli::kUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? weir::cli::kSuccess : weir::cli::kUsage;
  } catch (const std::exception& error) {
    std::cerr << "weir: " << error.what() << '\n';
    return weir::cli::kFailed;
  }
  return exit_code;
}
