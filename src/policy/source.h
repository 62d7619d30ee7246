#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weir/result.h"

namespace weir::policy {

// A position in a text, counted from 1.
struct Place {
  int line = 1;
  int column = 1;
  // What is read differs from what is written, by escapes or line ends: all of it is here.
  bool fixed = false;

  Place moved(std::size_t columns) const {
    return {line, column + (fixed ? 0 : static_cast<int>(columns)), fixed};
  }
};

// Something wrong with what somebody wrote: where it is, what it is and what to write instead.
struct Problem {
  Place place;
  std::string message;
};

using Problems = std::vector<Problem>;

// Somebody's text in quotes; only the start of a long one.
std::string in_quotes(std::string_view text);

// A text and what it is called in messages: a file's name, usually.
struct Source {
  std::string name;
  std::string text;

  // A file that lies still, or what a caller hands over: /dev/stdin, or /dev/fd/63 as shells write
  // it for <(…). Who reads anything else could wait for ever, or read for ever.
  static Result<Source, std::string> read(const std::string& path);

  // The text without the mark that some editors put in front of UTF-8.
  std::string_view content() const;
  std::string_view line(int number) const;

  // name:line:column: message, the line, and a caret under the place.
  std::string render(const Problem& problem) const;
  // The same of each, one after the other, however many there are.
  std::string render_all(const Problems& problems) const;
};

}  // namespace weir::policy
