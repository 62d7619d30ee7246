#pragma once

#include <span>
#include <string_view>

#include "weir/engine.h"

namespace weir::server {

using RespArguments = std::span<const std::string_view>;

// The commands that take a policy and a key.
enum class KeyCommand { take, peek, settle, reset, enter, leave, explain };

// The arguments of such a command that are not part of a Request. Borrows from the arguments.
struct CommandOptions {
  bool wants_receipt = false;
  std::string_view receipt{};
  std::string_view holder{};
};

// Parses `WEIR.X policy key …` or `WEIR.X policy [PERMITS n] … PARTS name value …`. Sets all fields
// of `request`, and those of `options` that are given. Returns the error for the client; empty:
// none.
std::string_view read_arguments(KeyCommand command, RespArguments arguments, Request& request,
                                CommandOptions& options);

// Compares without regard to case. `keyword` is in upper case.
bool is_keyword(std::string_view word, std::string_view keyword) noexcept;

}  // namespace weir::server
