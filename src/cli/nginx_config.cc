#include "cli/nginx_config.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <glob.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace weir::cli {

namespace {

using policy::SourcePosition;

constexpr std::string_view kBlanks = " \t\r\n";

// Splits the text into words, `;`, `{` and `}`.
class Lexer {
 public:
  Lexer(std::string_view text, std::size_t file) : text_(text), file_(file) {}

  std::optional<NginxWord> next() {
    skip_blanks();
    if (at_ >= text_.size()) return std::nullopt;
    NginxWord word{.position = {.file = file_, .place = place_}};
    const char first = text_[at_];
    if (first == ';' || first == '{' || first == '}') {
      word.text = take();
      return word;
    }
    if (first == '"' || first == '\'') return quoted(word);
    while (at_ < text_.size() && !ends_word()) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) word.text += take();
      // In ${name}, the brace does not open a block.
      if (text_[at_] == '$' && at_ + 1 < text_.size() && text_[at_ + 1] == '{') {
        while (at_ < text_.size() && text_[at_] != '}') word.text += take();
      }
      if (at_ < text_.size()) word.text += take();
    }
    return word;
  }

 private:
  std::optional<NginxWord> quoted(NginxWord word) {
    word.quoted = true;
    const char quote = take();
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) (void)take();
      word.text += take();
    }
    if (at_ < text_.size()) (void)take();
    return word;
  }
  bool ends_word() const {
    return text_[at_] == ';' || text_[at_] == '{' ||
           kBlanks.find(text_[at_]) != std::string_view::npos;
  }
  void skip_blanks() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') (void)take();
      } else if (kBlanks.find(text_[at_]) != std::string_view::npos) {
        (void)take();
      } else {
        return;
      }
    }
  }
  char take() {
    const char c = text_[at_++];
    place_.column = c == '\n' ? 1 : place_.column + 1;
    if (c == '\n') ++place_.line;
    return c;
  }

  std::string_view text_;
  std::size_t file_;
  std::size_t at_ = 0;
  SourcePosition place_{};
};

// ---- The output of nginx -T

constexpr std::string_view kMark = "# configuration file ";

// The path in a line `# configuration file PATH:`.
std::optional<std::string> marked_path(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!line.starts_with(kMark) || !line.ends_with(':')) return std::nullopt;
  return std::string{line.substr(kMark.size(), line.size() - kMark.size() - 1)};
}

// The files in the output of `nginx -T`; empty if the text is something else. Messages of nginx may
// precede the files, since stderr may be redirected as well.
std::vector<policy::Source> dumped_files(std::string_view text) {
  std::vector<policy::Source> files;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    if (auto path = marked_path(line.substr(0, line.find('\n')))) {
      files.push_back({.name = *std::move(path), .text = {}});
    } else if (!files.empty()) {
      files.back().text += line;
    } else if (!line.starts_with("nginx: ") && line.find_first_not_of(kBlanks) != line.npos) {
      return {};
    }
    text.remove_prefix(end);
  }
  return files;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string{} : path.substr(0, slash + 1);
}

bool is_pattern(std::string_view path) {
  return path.find_first_of("*?[") != std::string_view::npos;
}

std::vector<std::string> files_like(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  return paths;
}

// ---- Directives

constexpr int kMaxDepth = 64;
// Files may include others several times: without a bound, a few lines could expand exponentially.
constexpr std::size_t kMaxIncludes = 10'000;

class Parser {
 public:
  explicit Parser(const policy::Source& source) {
    config_.files = dumped_files(source.content());
    is_dump_ = !config_.files.empty();
    if (!is_dump_) config_.files.push_back(source);
    for (std::size_t i = 0; i < config_.files.size(); ++i) known_[config_.files[i].name] = i;
    folder_ = folder_of(config_.files.front().name);
  }

  NginxConfig parse() && {
    read_file(0, config_.directives, 0);
    return std::move(config_);
  }

 private:
  // A block that is being read: its start, and its nesting depth over all files.
  struct OpenBlock {
    NginxPosition position{};
    int depth = 0;
    bool in_block = false;
  };

  void read_file(std::size_t file, std::vector<NginxDirective>& into, int depth) {
    including_.push_back(file);
    // A copy: includes append to `files`, which invalidates references into it.
    const std::string text{config_.files[file].content()};
    Lexer lexer(text, file);
    read_block(lexer, {.position = {.file = file}, .depth = depth}, into);
    including_.pop_back();
  }

  // Reads directives up to the end of the block or of the file.
  void read_block(Lexer& lexer, const OpenBlock& open_block, std::vector<NginxDirective>& into) {
    NginxDirective current;
    while (auto word = lexer.next()) {
      const bool plain = !word->quoted;
      if (plain && word->text == ";") {
        if (!current.words.empty()) add(std::move(current), open_block.depth, into);
        current = {};
      } else if (plain && word->text == "{") {
        if (open_block.depth >= kMaxDepth) {
          return problem(word->position, "blocks are nested too deeply");
        }
        if (current.words.empty()) current.words.push_back(*word);
        current.has_block = true;
        read_block(lexer,
                   {.position = word->position, .depth = open_block.depth + 1, .in_block = true},
                   current.block);
        into.push_back(std::move(current));
        current = {};
      } else if (plain && word->text == "}") {
        if (!open_block.in_block) problem(word->position, "this } closes no block");
        return check_ended(current);
      } else {
        current.words.push_back(*std::move(word));
      }
    }
    check_ended(current);
    if (open_block.in_block) problem(open_block.position, "the block that begins here has no }");
  }

  void check_ended(const NginxDirective& current) {
    if (!current.words.empty()) problem(current.position(), "a ; is missing after this directive");
  }

  void add(NginxDirective directive, int depth, std::vector<NginxDirective>& into) {
    if (directive.name() == "include" && directive.words.size() == 2) {
      include(directive, depth, into);
    } else {
      into.push_back(std::move(directive));
    }
  }

  void include(const NginxDirective& directive, int depth, std::vector<NginxDirective>& into) {
    const std::string& written = directive.argument(1);
    const std::string path = written.starts_with('/') ? written : folder_ + written;
    const std::vector<std::string> paths =
        is_pattern(path) ? paths_like(path) : std::vector<std::string>{path};
    for (const std::string& each : paths) {
      if (++includes_ > kMaxIncludes) {
        return problem(directive.position(), fmt::format("more than {} includes", kMaxIncludes));
      }
      const auto file = find_file(each, directive);
      if (!file) continue;
      if (std::ranges::find(including_, *file) != including_.end()) {
        problem(directive.position(), fmt::format("{} includes itself: {}", each, cycle_to(*file)));
        continue;
      }
      read_file(*file, into, depth);
    }
  }

  // Sorted by name, like the result of glob(3).
  std::vector<std::string> paths_like(const std::string& pattern) const {
    if (!is_dump_) return files_like(pattern);
    std::vector<std::string> paths;
    for (const auto& [name, file] : known_) {
      if (fnmatch(pattern.c_str(), name.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0) {
        paths.push_back(name);
      }
    }
    return paths;
  }

  std::optional<std::size_t> find_file(const std::string& path, const NginxDirective& directive) {
    const auto known = known_.find(path);
    if (known != known_.end()) return known->second;
    std::string message = "the output of nginx -T does not contain it";
    if (!is_dump_) {
      auto source = policy::Source::read(path);
      if (source) {
        config_.files.push_back(*std::move(source));
        return known_[path] = config_.files.size() - 1;
      }
      message = source.error();
    }
    config_.missing.push_back({directive.position(), message});
    return std::nullopt;
  }

  // "a.conf → b.conf → a.conf"
  std::string cycle_to(std::size_t file) const {
    std::string cycle;
    for (auto each = std::ranges::find(including_, file); each != including_.end(); ++each) {
      cycle += config_.files[*each].name + " → ";
    }
    return cycle + config_.files[file].name;
  }

  void problem(const NginxPosition& position, std::string message) {
    config_.add_problem(position, std::move(message));
  }

  NginxConfig config_;
  bool is_dump_ = false;
  std::string folder_;                        // of the main file
  std::map<std::string, std::size_t> known_;  // path → index of the file
  std::vector<std::size_t> including_;        // files that are being read
  std::size_t includes_ = 0;
};

}  // namespace

const std::string& NginxDirective::argument(std::size_t number) const {
  static const std::string none;
  return number < words.size() ? words[number].text : none;
}

std::string NginxDirective::text() const {
  std::string all;
  for (const NginxWord& word : words) all += (all.empty() ? "" : " ") + word.text;
  return all;
}

std::string NginxConfig::where(const NginxPosition& position) const {
  return fmt::format("{}:{}", files[position.file].name, position.place.line);
}

void NginxConfig::add_problem(const NginxPosition& position, std::string message) {
  const policy::Source& source = files[position.file];
  const auto same = std::ranges::find(problems, source.name,
                                      [](const SourceProblems& each) { return each.source.name; });
  SourceProblems& into =
      same != problems.end() ? *same : problems.emplace_back(SourceProblems{.source = source});
  // A file may be included several times: report each problem once.
  const bool is_known = std::ranges::any_of(into.problems, [&](const policy::Problem& each) {
    return each.place.line == position.place.line && each.place.column == position.place.column &&
           each.message == message;
  });
  if (!is_known) into.problems.push_back({position.place, std::move(message)});
}

NginxConfig read_nginx(const policy::Source& source) { return Parser(source).parse(); }

}  // namespace weir::cli
