#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/suggest.h"
#include "cli/commands.h"

namespace {

// The error for a first word that is not a command; empty if it is one. CLI11 itself would only say
// that a command is missing.
std::string command_error(const CLI::App& app, const std::string& word) {
  if (word.starts_with('-')) return {};
  const std::vector<const CLI::App*> commands = app.get_subcommands({});
  std::vector<std::string_view> names;
  for (const CLI::App* command : commands) {
    if (command->get_name() == word) return {};
    names.push_back(command->get_name());
  }
  return "unknown command \"" + word + '"' + weir::did_you_mean(word, names);
}

// The arguments, with `help` and `version` as commands, and --help if there are none.
std::vector<std::string> arguments_of(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || words[0] == "help") {
    if (words.size() > 1) return {words[1], "--help"};
    return {"--help"};
  }
  if (words[0] == "version" || words[0] == "-v" || words[0] == "-V") return {"--version"};
  return words;
}

// The error for arguments that no option takes. CLI11 would list them in reverse order.
std::string extra_arguments_error(const CLI::App& command, const std::vector<std::string>& extras) {
  const auto option = std::ranges::find_if(
      extras, [](const std::string& word) { return word.starts_with("--") && word.size() > 2; });
  if (option == extras.end()) return "unexpected \"" + extras.front() + '"';
  const std::string name = option->substr(0, option->find('='));
  std::vector<std::string> known;
  for (const CLI::Option* each : command.get_options()) {
    for (const std::string& long_name : each->get_lnames()) known.push_back("--" + long_name);
  }
  const std::vector<std::string_view> names(known.begin(), known.end());
  return "unknown option " + name + weir::did_you_mean(name, names);
}

int explain(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> extras = app.remaining(true);
  const bool is_about_extras =
      error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  if (!is_about_extras || extras.empty()) {
    return app.exit(error) == 0 ? weir::cli::kSuccess : weir::cli::kUsage;
  }
  const std::vector<CLI::App*> called = app.get_subcommands();
  const CLI::App& command = called.empty() ? app : *called.back();
  const std::string name = called.empty() ? "weir" : "weir " + command.get_name();
  std::cerr << name << ": " << extra_arguments_error(command, extras) << ": `" << name
            << " --help` lists all options\n";
  return weir::cli::kUsage;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"weir: rate limiting for any service", "weir"};
  app.set_version_flag("--version", "weir " WEIR_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Every command has --help. Exit codes: 0 success, 1 refused or failed, 2 wrong usage.");
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
  std::vector<std::string> words = arguments_of(argc, argv);
  if (const std::string error_text = command_error(app, words.front()); !error_text.empty()) {
    std::cerr << "weir: " << error_text << ": `weir --help` lists all commands\n";
    return weir::cli::kUsage;
  }
  std::ranges::reverse(words);  // CLI11 expects the arguments in reverse order
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    const int code = explain(app, error);
    return argc > 1 ? code : weir::cli::kUsage;
  } catch (const std::exception& error) {
    std::cerr << "weir: " << error.what() << '\n';
    return weir::cli::kFailed;
  }
  return exit_code;
}
