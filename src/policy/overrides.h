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

// Other limits for some keys of a policy.

namespace weir::policy {

// Whose limits they are: a whole key or, with a star behind it, all keys that start so. In a
// request that has parts, "name=value" and "name=start*" stand for a part and its value.
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

// Finds which pattern is for a subject, among any number of them: an exact one before those with a
// star, of these the longest; if two parts of a request have equal claims, the one that was added
// first. Allocates nothing when it is asked, and looks at few.
class PatternIndex {
 public:
  PatternIndex() = default;
  explicit PatternIndex(const std::vector<Override>& overrides);
  explicit PatternIndex(std::span<const Pattern> patterns);

  bool empty() const { return whole_.empty(); }

  // The position of the pattern for a subject.
  std::optional<std::size_t> find(const Subject& subject) const;

  // The position of the pattern that is for all, or nearly all, that `pattern` is for.
  std::optional<std::size_t> covering(const Pattern& pattern) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };

  // How good a match is, and where.
  struct Match {
    std::size_t length = 0;  // of the prefix; more than any has for an exact one
    std::size_t position = 0;
  };

  // The patterns for one text: the whole key, or one part.
  class Texts {
   public:
    void add(std::string_view text, bool prefix, std::size_t position);
    void arrange();  // once all are added
    bool empty() const { return exact_.empty() && prefixes_.empty(); }
    std::optional<Match> find(std::string_view text) const;
    std::optional<Match> find_prefix(std::string_view text) const;

   private:
    struct Prefix {
      std::string text;
      std::size_t position = 0;
      std::ptrdiff_t shorter = -1;  // the longest of the others that it starts with
    };

    std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>> exact_;
    std::vector<Prefix> prefixes_;  // in the order of the alphabet
  };

  void add(const Pattern& pattern, std::size_t position);
  void arrange();
  std::optional<std::size_t> find_part(std::span<const Part> parts) const;

  Texts whole_;
  std::unordered_map<std::string, Texts, Hash, std::equal_to<>> parts_;  // by name
  std::optional<std::size_t> all_;                                       // "*"
};

}  // namespace weir::policy
