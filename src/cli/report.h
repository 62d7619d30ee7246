#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string_view>

#include "cli/commands.h"
#include "policy/source.h"

// How commands report what is wrong.

namespace weir::cli {

// Prints "weir: …" to stderr and returns the exit code.
int fail(std::string_view text, int exit_code = kFailed);

// Problems with a file. To stderr, with their lines: all, for who asked what is wrong; or the first
// of them, for who wanted something else.
enum class Shown { all, first };
void print_problems(const policy::Source& source, const policy::Problems& problems, Shown shown);
// All of them, marked as something that does not have to be changed.
void print_warnings(const policy::Source& source, policy::Problems warnings);

nlohmann::json problems_json(const policy::Problems& problems);

// Names and lines are somebody's bytes: what is not UTF-8 is shown as a replacement character.
void print_json(const nlohmann::json& json);

}  // namespace weir::cli
