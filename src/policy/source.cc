#include "policy/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

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
  return {line.substr(start, kShownColumns), column - start};
}

// As many blanks as it takes to stand below the end of `text`: tabs stay tabs, and the bytes of
// one character count once.
std::string blanks_below(std::string_view text) {
  std::string blanks;
  for (const char c : text) {
    if (!is_continuation(c)) blanks += c == '\t' ? '\t' : ' ';
  }
  return blanks;
}

}  // namespace

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

std::string_view Source::line(int number) const {
  std::string_view rest = text;
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
  const auto [line, column] = problem.place;
  const auto [shown, caret] = excerpt(this->line(line), static_cast<std::size_t>(column - 1));
  return fmt::format("{}:{}:{}: {}\n  {}\n  {}^\n", name, line, column, problem.message, shown,
                     blanks_below(shown.substr(0, caret)));
}

}  // namespace weir::policy
