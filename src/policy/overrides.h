#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "policy/key.h"
#include "policy/limit.h"

// Overrides: other limits for some keys of a policy.

namespace weir::policy {

// Matches keys: a whole key or, with a star at its end, all keys with that prefix. In a request
// with parts, "name=value" and "name=prefix*" match a part by its value.
struct Pattern {
  std::string text;  // without the star
  bool prefix = false;

  static Pattern of(std::string_view written);
  std::string written() const { return prefix ? text + '*' : text; }
  friend bool operator==(const Pattern&, const Pattern&) = default;
};

struct Override {
  Pattern pattern;
  std::vector<Limit> limits;
};

// Finds the pattern that matches a subject, among any number of patterns: an exact one first, then
// the longest prefix; of equal matches of two parts, the pattern added first. A lookup allocates
// nothing and compares few patterns. Immutable and thread-safe.
class PatternIndex {
 public:
  PatternIndex() = default;
  explicit PatternIndex(const std::vector<Override>& overrides);
  explicit PatternIndex(std::span<const Pattern> patterns);

  bool empty() const { return whole_.empty(); }

  // The position of the pattern that matches a subject.
  std::optional<std::size_t> find(const Subject& subject) const;

  // The position of the best pattern that matches the text of `pattern` itself, and so all (or,
  // with parts, nearly all) subjects that `pattern` matches.
  std::optional<std::size_t> covering(const Pattern& pattern) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };

  // The quality of a match, and its pattern.
  struct Match {
    std::size_t length = 0;  // of the prefix; the maximum for an exact match
    std::size_t position = 0;
  };

  // The patterns for one text: the whole key, or the value of one part.
  class Texts {
   public:
    void add(std::string_view text, bool prefix, std::size_t position);
    void arrange();  // after the last add
    bool empty() const { return exact_.empty() && prefixes_.empty(); }
    std::optional<Match> find(std::string_view text) const;
    std::optional<Match> find_prefix(std::string_view text) const;

   private:
    struct Prefix {
      std::string text;
      std::size_t position = 0;
      std::ptrdiff_t shorter = -1;  // the longest other entry that is a prefix of this; -1: none
    };

    std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>> exact_;
    std::vector<Prefix> prefixes_;  // sorted by text
  };

  void add(const Pattern& pattern, std::size_t position);
  void arrange();
  std::optional<std::size_t> find_part(std::span<const Part> parts) const;

  Texts whole_;
  std::unordered_map<std::string, Texts, Hash, std::equal_to<>> parts_;  // by name
  std::optional<std::size_t> all_;                                       // "*"
};

}  // namespace weir::policy
