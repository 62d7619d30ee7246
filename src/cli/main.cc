#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <exception>
#include <iostream>

#include "cli/commands.h"

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
