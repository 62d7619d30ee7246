#pragma once

#include <CLI/App.hpp>

namespace weir::cli {

// Exit codes.
inline constexpr int kSuccess = 0;
inline constexpr int kFailed = 1;  // refused, or a check failed
inline constexpr int kUsage = 2;   // wrong usage

// Each adds one or more commands to `app`. A command that runs stores its exit code in `exit_code`,
// which must outlive `app`.
void add_bench_command(CLI::App& app, int& exit_code);
void add_client_commands(CLI::App& app, int& exit_code);
void add_fleet_command(CLI::App& app, int& exit_code);
void add_import_command(CLI::App& app, int& exit_code);
void add_order_commands(CLI::App& app, int& exit_code);
void add_serve_command(CLI::App& app, int& exit_code);
void add_test_command(CLI::App& app, int& exit_code);
void add_top_command(CLI::App& app, int& exit_code);
void add_validate_command(CLI::App& app, int& exit_code);

}  // namespace weir::cli
