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

  Place moved(std::size_t columns) const { return {line, column + static_cast<int>(columns)}; }
};

// Something wrong with what somebody wrote: where it is, what it is and what to write instead.
struct Problem {
  Place place;
  std::string message;
};

using Problems = std::vector<Problem>;

// A text and what it is called in messages: a file's name, usually.
struct Source {
  std::string name;
  std::string text;

  static Result<Source, std::string> read(const std::string& path);

  std::string_view line(int number) const;

  // name:line:column: message, the line, and a caret under the place.
  std::string render(const Problem& problem) const;
};

}  // namespace weir::policy
