#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weir::cli::top {

// Text that is safe to print on a terminal, and its width in columns.
struct DisplayText {
  std::string text;
  std::size_t columns = 0;
};

// Escapes untrusted text, such as a key. Control characters, invisible characters and characters
// that change the text direction are written as \x1b or \u202e. Text that does not fit into
// `max_columns` columns is truncated and ends with an ellipsis. Without `utf8` the result is ASCII.
DisplayText display_text(std::string_view text, std::size_t max_columns, bool utf8);

}  // namespace weir::cli::top
