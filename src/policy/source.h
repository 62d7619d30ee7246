#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weir/result.h"

namespace weir::policy {

// A position in a source text. Lines and columns count from 1.
struct SourcePosition {
  int line = 1;
  int column = 1;
  // The value was unescaped or folded, so an offset in it does not correspond to a column: problems
  // anywhere in it are reported at this position.
  bool fixed = false;

  SourcePosition moved(std::size_t columns) const {
    return {line, column + (fixed ? 0 : static_cast<int>(columns)), fixed};
  }
};

// An error in a source text: its position, and a message with what to write instead.
struct Problem {
  SourcePosition place;
  std::string message;
};

using Problems = std::vector<Problem>;

// Foreign text in quotes for a message, truncated if long.
std::string in_quotes(std::string_view text);

// A text, with its name for messages (usually the file's).
struct Source {
  std::string name;
  std::string text;

  // Reads a regular file, /dev/stdin or /dev/fd/N (shells pass <(…) so). Refuses other files, such
  // as FIFOs and devices: reading them could block or never end.
  static Result<Source, std::string> read(const std::string& path);

  // The text without a UTF-8 byte order mark.
  std::string_view content() const;
  std::string_view line(int number) const;

  // name:line:column: message, then the line with a caret under the position.
  std::string render(const Problem& problem) const;
  // All problems, each as `render` prints it.
  std::string render_all(const Problems& problems) const;
};

}  // namespace weir::policy
