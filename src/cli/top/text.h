#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weir::cli::top {

// A text as a terminal may show it, and how many columns it takes.
struct Shown {
  std::string text;
  std::size_t columns = 0;
};

// Whatever somebody has chosen as a key, made harmless: what a terminal would obey, or what would
// not be seen or turn the line around, is written out, as \x1b or \u202e. What does not fit into
// `most` columns is cut and ends with an ellipsis. Without `utf8` everything is ASCII.
Shown shown(std::string_view text, std::size_t most, bool utf8);

}  // namespace weir::cli::top
