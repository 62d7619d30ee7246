#include "policy/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/utf8.h"

namespace weir::policy {

namespace {

// How much of a long line is shown around the place.
constexpr std::size_t kShownColumns = 100;

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// The part of `line` to show, and how far in the caret stands.
std::pair<std::string_view, std::size_t> excerpt(std::string_view line, std::size_t column) {
  column = std::min(column, line.size());
  std::size_t start = column > kShownColumns / 2 ? column - kShownColumns / 2 : 0;
  if (line.size() <= kShownColumns) start = 0;
  while (start > 0 && is_continuation(line[start])) --start;
  return {cut(line.substr(start), kShownColumns), column - start};
}

// As a terminal can show it: what is in a file must not move cursors or change colours.
std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const Utf8 character = first_character(text);
    const auto first = static_cast<unsigned char>(text[0]);
    const bool control = (first < 0x20 && first != '\t') || first == 0x7f;
    shown += !character.whole ? "\xef\xbf\xbd" : control ? "?" : text.substr(0, character.bytes);
    text.remove_prefix(character.bytes);
  }
  return shown;
}

// Whether a character, given by its bytes, takes two columns: those of East Asia and pictures do.
bool is_wide(std::string_view character) {
  return (character >= "\u1100" && character <= "\u115f") ||
         (character >= "\u2e80" && character <= "\ua4cf") ||
         (character >= "\uac00" && character <= "\ud7a3") ||
         (character >= "\uf900" && character <= "\ufaff") ||
         (character >= "\uff01" && character <= "\uff60") ||
         (character >= "\U0001f300" && character <= "\U0003fffd");
}

bool is_combining(std::string_view character) {
  return character >= "\u0300" && character <= "\u036f";
}

// As many blanks as it takes to stand below the end of `text`: tabs stay tabs, and a wide character
// has a wide blank below.
std::string blanks_below(std::string_view text) {
  std::string blanks;
  while (!text.empty()) {
    const std::string_view character = text.substr(0, first_character(text).bytes);
    if (!is_combining(character)) {
      blanks += character == "\t" ? "\t" : is_wide(character) ? "\u3000" : " ";
    }
    text.remove_prefix(character.size());
  }
  return blanks;
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t most = 40;
  return text.size() <= most ? fmt::format("\"{}\"", text)
                             : fmt::format("\"{}…\"", cut(text, most));
}

Result<Source, std::string> Source::read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fmt::format("cannot open {}: {}", path, std::strerror(errno));
  std::string text;
  std::array<char, 65536> block;
  while (file) {
    file.read(block.data(), block.size());
    text.append(block.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) return fmt::format("cannot read {}: {}", path, std::strerror(errno));
  return Source{path, std::move(text)};
}

std::string_view Source::content() const {
  constexpr std::string_view mark = "\ufeff";
  return std::string_view{text}.substr(text.starts_with(mark) ? mark.size() : 0);
}

std::string_view Source::line(int number) const {
  std::string_view rest = content();
  for (; number > 1; --number) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) return {};
    rest.remove_prefix(end + 1);
  }
  rest = rest.substr(0, rest.find('\n'));
  if (rest.ends_with('\r')) rest.remove_suffix(1);
  return rest;
}

std::string Source::render(const Problem& problem) const {
  const Place& place = problem.place;
  const auto [shown, caret] = excerpt(line(place.line), static_cast<std::size_t>(place.column - 1));
  return fmt::format("{}:{}:{}: {}\n  {}\n  {}^\n", name, place.line, place.column,
                     printable(problem.message), printable(shown),
                     blanks_below(printable(shown.substr(0, caret))));
}

}  // namespace weir::policy
