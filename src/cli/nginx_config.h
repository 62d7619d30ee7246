#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/import.h"
#include "policy/source.h"

// The parser of nginx's configuration language. It knows no directive but `include`.

namespace weir::cli {

// A position in a file of a configuration.
struct NginxPosition {
  std::size_t file = 0;  // index into NginxConfig::files
  policy::SourcePosition place{};
};

struct NginxWord {
  std::string text{};
  NginxPosition position{};
  bool quoted = false;
};

// `name argument …;` or `name argument … { … }`. Has at least one word.
struct NginxDirective {
  std::vector<NginxWord> words{};
  bool has_block = false;
  std::vector<NginxDirective> block{};

  const std::string& name() const { return words.front().text; }
  // The argument `number`, counted from 1; empty if there are fewer.
  const std::string& argument(std::size_t number) const;
  std::string text() const;  // all words, joined by blanks
  const NginxPosition& position() const { return words.front().position; }
};

// An include whose file cannot be read. It is skipped.
struct NginxMissing {
  NginxPosition position{};
  std::string message{};
};

struct NginxConfig {
  std::vector<policy::Source> files{};       // the main one first
  std::vector<NginxDirective> directives{};  // included files replace their include
  std::vector<NginxMissing> missing{};
  std::vector<SourceProblems> problems{};  // not empty: the rest is incomplete

  // "file:line"
  std::string where(const NginxPosition& position) const;
  void add_problem(const NginxPosition& position, std::string message);
};

// Parses a configuration file with its includes, or the output of `nginx -T`, which contains all
// files. Relative paths in includes start at the folder of the main file, as in nginx.
NginxConfig read_nginx(const policy::Source& source);

}  // namespace weir::cli
