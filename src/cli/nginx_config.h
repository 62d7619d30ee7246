#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/import.h"
#include "policy/source.h"

// nginx's language, without the meaning of its directives.

namespace weir::cli {

// A position in one of the files of a configuration.
struct NginxPosition {
  std::size_t file = 0;  // index into NginxConfig::files
  policy::Place place{};
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
  // The argument of that number, from 1; empty if there are fewer.
  const std::string& argument(std::size_t number) const;
  std::string text() const;  // all words, separated by blanks
  const NginxPosition& position() const { return words.front().position; }
};

// An include that was not followed because the file cannot be read.
struct NginxMissing {
  NginxPosition position{};
  std::string message{};
};

struct NginxConfig {
  std::vector<policy::Source> files{};       // the main one first
  std::vector<NginxDirective> directives{};  // with those of included files in the place of include
  std::vector<NginxMissing> missing{};
  std::vector<SourceProblems> problems{};  // syntax errors and cycles; then the rest is incomplete

  // "file:line"
  std::string where(const NginxPosition& position) const;
  void add_problem(const NginxPosition& position, std::string message);
};

// Reads a configuration file and what it includes, or the output of `nginx -T`, which contains all
// files. Relative includes start at the folder of the main file, as in nginx.
NginxConfig read_nginx(const policy::Source& source);

}  // namespace weir::cli
