#pragma once

#include <span>
#include <string_view>

#include "weir/engine.h"

namespace weir::server {

using Arguments = std::span<const std::string_view>;

// The commands that are about a policy and a key.
enum class KeyCommand { take, peek, settle, reset, enter, leave, explain };

// What such a command asks for. Its texts are borrowed from the arguments.
struct Asked {
  bool wants_receipt = false;
  std::string_view receipt{};
  std::string_view holder{};
};

// Reads `WEIR.X policy key …` or `WEIR.X policy [PERMITS n] … PARTS name value …` into `request`,
// all of which it sets. Returns what is wrong, as clients are told, or nothing.
std::string_view read_arguments(KeyCommand command, Arguments arguments, Request& request,
                                Asked& asked);

// Whether a word is the one meant, in upper or lower case. `word` is in upper case.
bool is_word(std::string_view given, std::string_view word) noexcept;

}  // namespace weir::server
