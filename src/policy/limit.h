#pragma once

#include <string>
#include <vector>

#include "core/limit.h"

namespace weir::policy {

// Over what a limit counts. `standard` is fleet on a Redis store and node on memory.
enum class Scope { standard, node, fleet, leased, split };

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

// Whether what is remembered under one rule keeps its meaning under the other.
bool same_algorithm(const core::Limit& a, const core::Limit& b);

}  // namespace weir::policy
