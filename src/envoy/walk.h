#pragma once

#include <span>
#include <string>
#include <vector>

#include "envoy/rules.h"

namespace weir::envoy {

enum class MatchKind : std::uint8_t { value, wildcard, key, none };

// The reason why a walk ended.
enum class WalkEnd : std::uint8_t {
  limit,      // at a rule
  no_rule,    // all entries matched, and there is no limit: not limited
  not_found,  // an entry has no match
  too_long,   // the configuration ends before the descriptor
};

struct WalkResult {
  WalkEnd end = WalkEnd::not_found;
  const DescriptorNode* node =
      nullptr;            // last matching node; null: not even the first entry matched
  std::size_t steps = 0;  // matching entries
};

// Walks down the tree without backtracking: for each entry its value, else the first wildcard in
// the order of the file, else the key alone. A value without a limit hides the limit of its key.
// Allocates nothing.
WalkResult walk(const Domain& domain, std::span<const DescriptorEntry> entries) noexcept;

// The same for one entry.
struct StepMatch {
  const DescriptorNode* node = nullptr;
  MatchKind match = MatchKind::none;
};
StepMatch step(const DescriptorNode& from, const DescriptorEntry& entry) noexcept;

// Appends the counter's key for a descriptor that reached `node` by `entries`. Domain, entries and
// kind of limit make it unique. Keys of more than kMaxCounterName bytes are replaced by a SHA-256
// hash, so that clients cannot make them collide.
inline constexpr std::size_t kMaxCounterName = 4096;
void append_counter(std::string& name, const Domain& domain, const DescriptorNode* node,
                    std::span<const DescriptorEntry> entries, std::string_view tail);

// The name of the descriptor's metrics: the rule's name, with values of the request if the rule
// asks for them.
std::string counted_as(std::string_view domain, const DescriptorNode& node,
                       std::span<const DescriptorEntry> entries);
// The same for a limit of the request.
std::string counted_as(std::string_view domain, std::span<const DescriptorEntry> entries);

}  // namespace weir::envoy
