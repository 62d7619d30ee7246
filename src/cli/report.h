#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string_view>

#include "cli/commands.h"
#include "policy/source.h"

// Output of errors, problems in files, and JSON.

namespace weir::cli {

// Prints "weir: …" to stderr and returns the exit code.
int fail(std::string_view text, int exit_code = kFailed);

// Prints the problems of a file to stderr, with the lines they are in: all, for a command that
// checks files; or the first 20, for a command with another purpose.
enum class ShowProblems { all, first };
void print_problems(const policy::Source& source, const policy::Problems& problems,
                    ShowProblems shown);
// Prints all warnings to stderr, each marked as a warning.
void print_warnings(const policy::Source& source, policy::Problems warnings);

nlohmann::json problems_json(const policy::Problems& problems);

// Prints to stdout. Names and lines from files may not be UTF-8: such bytes become U+FFFD.
void print_json(const nlohmann::json& json);

}  // namespace weir::cli
