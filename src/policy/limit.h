#pragma once

#include <string>
#include <vector>

#include "core/limit.h"
#include "core/node_share.h"

namespace weir::policy {

// The nodes over which a limit counts. `standard` is fleet on a Redis store and node on memory.
enum class Scope { standard, node, fleet, leased, split };

// Whether nodes share a store (fleet) or each node has its own (none).
enum class Sharing { none, fleet };

// The cost of a call under a limit: the permits it asks for, or a fixed number.
struct Cost {
  bool permits = true;
  Permits fixed = 1;

  Permits of(Permits asked) const { return permits ? asked : fixed; }
};

// A limit of a policy: the algorithm with its numbers, and what it applies to.
struct Limit {
  core::Limit limit;
  std::string name{};             // empty: named by its position
  std::vector<std::string> by{};  // key parts that it counts by; empty: the whole key
  Cost cost{};
  Scope scope = Scope::standard;
  bool shadow = false;
};

// True if each node counts its own share of the limit.
inline bool is_split(const Limit& limit, Sharing sharing) {
  return sharing == Sharing::fleet && limit.scope == Scope::split &&
         core::can_be_split(limit.limit);
}

// True if the limit counts on the shared store.
inline bool is_shared(const Limit& limit, Sharing sharing) {
  return sharing == Sharing::fleet && limit.scope != Scope::node && !is_split(limit, sharing);
}

// True if a state of one limit is meaningful under the other.
bool same_algorithm(const core::Limit& a, const core::Limit& b);

}  // namespace weir::policy
