#pragma once

#include <span>
#include <string>
#include <vector>

#include "envoy/rules.h"

namespace weir::envoy {

enum class Match : std::uint8_t { value, wildcard, key, none };

// Why a walk ended where it did.
enum class End : std::uint8_t {
  limit,      // at a rule
  no_rule,    // all entries were found, and there is no limit: it is let through
  not_found,  // there is nothing for an entry
  too_long,   // the configuration ends before the descriptor does
};

struct Walk {
  End end = End::not_found;
  const Node* node = nullptr;  // the last that was found; none: not even the first entry
  std::size_t steps = 0;       // entries that were found
};

// One way down: for each entry its value, else a wildcard in the order of the file, else its key
// alone. There is no way back up: a value that has no limit of its own hides that of its key.
// Allocates nothing.
Walk walk(const Domain& domain, std::span<const Entry> entries) noexcept;

// The same for one entry.
struct Found {
  const Node* node = nullptr;
  Match match = Match::none;
};
Found step(const Node& from, const Entry& entry) noexcept;

// The name of the counter of a descriptor that has come to `node` by `entries`: one that no other
// domain, pairs of keys and values, or kind of limit has. Names of more than kLongestName bytes are
// replaced by a hash, which nobody can make collide.
inline constexpr std::size_t kLongestName = 4096;
void append_counter(std::string& name, const Domain& domain, const Node* node,
                    std::span<const Entry> entries, std::string_view tail);

// What it is counted as: the rule's own name, or one with values of the call where that is asked
// for.
std::string counted_as(std::string_view domain, const Node& node, std::span<const Entry> entries);
// Of a limit that comes with the call.
std::string counted_as(std::string_view domain, std::span<const Entry> entries);

}  // namespace weir::envoy
