#include "policy/source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/utf8.h"

namespace weir::policy {

namespace {

// Bounds what is read from a pipe, which may have no end. No policy file is larger.
constexpr std::size_t kMaxBytes = std::size_t{64} << 20;

// Maximum width of the excerpt around a position in a long line.
constexpr std::size_t kShownColumns = 100;

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// The part of `line` to show, and the offset of the caret in it.
std::pair<std::string_view, std::size_t> excerpt(std::string_view line, std::size_t column) {
  column = std::min(column, line.size());
  std::size_t start = column > kShownColumns / 2 ? column - kShownColumns / 2 : 0;
  if (line.size() <= kShownColumns) start = 0;
  while (start > 0 && is_continuation(line[start])) --start;
  return {truncate_utf8(line.substr(start), kShownColumns), column - start};
}

// Replaces control characters: the content of a file must not control the terminal.
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

// True for a character of two columns (East Asian wide, emoji), given by its UTF-8 bytes.
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

// Blanks as wide as `text`: tabs stay tabs, and a wide character becomes a wide blank.
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

// ---- Lines

std::string_view first_line(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines{first_line(text)};
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    text.remove_prefix(end + 1);
    lines.push_back(first_line(text));
  }
  return lines;
}

std::string rendered(std::string_view name, const Problem& problem, std::string_view line) {
  const SourcePosition& place = problem.place;
  const auto [shown, caret] = excerpt(line, static_cast<std::size_t>(place.column - 1));
  return fmt::format("{}:{}:{}: {}\n  {}\n  {}^\n", name, place.line, place.column,
                     printable(problem.message), printable(shown),
                     blanks_below(printable(shown.substr(0, caret))));
}

// ---- Files

bool is_handed_over(const std::string& path) {
  return path == "/dev/stdin" || path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/");
}

// Owns a file descriptor.
struct OwnedDescriptor {
  explicit OwnedDescriptor(int file) : fd(file) {}
  ~OwnedDescriptor() {
    if (fd >= 0) close(fd);
  }
  OwnedDescriptor(const OwnedDescriptor&) = delete;
  OwnedDescriptor& operator=(const OwnedDescriptor&) = delete;

  const int fd;
};

// The reason why the file must not be read; none if it may be.
std::optional<std::string> flaw_of(int fd) {
  struct stat file {};
  if (fstat(fd, &file) != 0) return std::strerror(errno);
  if (S_ISDIR(file.st_mode)) return std::strerror(EISDIR);
  if (!S_ISREG(file.st_mode)) return "it is not a regular file";
  return std::nullopt;
}

// Appends the content to `text`. Returns an error message on failure.
std::optional<std::string> read_all(int fd, std::string& text) {
  std::array<char, 65536> block;
  while (text.size() <= kMaxBytes) {
    const ssize_t size = ::read(fd, block.data(), block.size());
    if (size == 0) return std::nullopt;
    if (size > 0) {
      text.append(block.data(), static_cast<std::size_t>(size));
    } else if (errno != EINTR) {
      return std::strerror(errno);
    }
  }
  return fmt::format("it has more than {} MiB", kMaxBytes >> 20);
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t most = 40;
  return text.size() <= most ? fmt::format("\"{}\"", text)
                             : fmt::format("\"{}…\"", truncate_utf8(text, most));
}

Result<Source, std::string> Source::read(const std::string& path) {
  const bool may_flow = is_handed_over(path);
  // Opening a FIFO without a writer would block already.
  const OwnedDescriptor file(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | (may_flow ? 0 : O_NONBLOCK)));
  if (file.fd < 0) return fmt::format("cannot open {}: {}", path, std::strerror(errno));
  Source source{.name = path, .text = {}};
  std::optional<std::string> flaw = may_flow ? std::nullopt : flaw_of(file.fd);
  if (!flaw) flaw = read_all(file.fd, source.text);
  if (flaw) return fmt::format("cannot read {}: {}", path, *flaw);
  return source;
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
  return first_line(rest);
}

std::string Source::render(const Problem& problem) const {
  return rendered(name, problem, line(problem.place.line));
}

std::string Source::render_all(const Problems& problems) const {
  // Split once: searching each problem's line from the start would be quadratic.
  const std::vector<std::string_view> lines = lines_of(content());
  std::string all;
  for (const Problem& problem : problems) {
    const auto index = static_cast<std::size_t>(problem.place.line - 1);
    all += rendered(name, problem, index < lines.size() ? lines[index] : std::string_view{});
  }
  return all;
}

}  // namespace weir::policy
