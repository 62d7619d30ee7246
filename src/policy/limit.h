#pragma once

#include <string>
#include <vector>

#include "core/limit.h"
#include "core/share.h"

namespace weir::policy {

// Over what a limit counts. `standard` is fleet on a Redis store and node on memory.
enum class Scope { standard, node, fleet, leased, split };

// Whether there is a store that nodes share.
enum class Sharing { none, fleet };

// What a call charges to a limit: the permits asked for, or always the same number.
struct Cost {
  bool permits = true;
  Permits fixed = 1;

  Permits of(Permits asked) const { return permits ? asked : fixed; }
};

// A limit as a policy has it: the rule, and what it applies to.
struct Limit {
  core::Limit rule;
  std::string name{};             // empty: known by its position
  std::vector<std::string> by{};  // parts of the key it counts by; empty: the whole key
  Cost cost{};
  Scope scope = Scope::standard;
  bool shadow = false;
};

// Whether each node has its part of it, and counts that.
inline bool is_split(const Limit& limit, Sharing sharing) {
  return sharing == Sharing::fleet && limit.scope == Scope::split && core::can_be_split(limit.rule);
}

// Whether it counts on the store that nodes share.
inline bool is_shared(const Limit& limit, Sharing sharing) {
  return sharing == Sharing::fleet && limit.scope != Scope::node && !is_split(limit, sharing);
}

// Whether what is remembered under one rule keeps its meaning under the other.
bool same_algorithm(const core::Limit& a, const core::Limit& b);

}  // namespace weir::policy
