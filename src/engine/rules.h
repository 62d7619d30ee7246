#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "policy/policy_file.h"
#include "store/memory/fingerprint.h"

namespace weir::engine {

// A limit of a policy, ready to be asked.
struct Rule {
  core::Limit limit;
  std::string_view name;  // or position; lives as long as the engine
  std::vector<std::string> by;
  policy::Cost cost;
  bool shadow = false;
  std::uint64_t identity = 0;  // by which its usage is known
  bool has_record = false;
  Nanos patience{0};  // of callers who do not say how long they would wait
  store::Fingerprint sharing{};
};

struct Policy {
  std::string_view name;  // lives as long as the engine
  std::vector<Rule> rules;
  WhenFull when_full = WhenFull::share;
  bool has_concurrency = false;
};

// Texts that live as long as the engine, so that answers can point to them.
using Names = std::set<std::string, std::less<>>;

// The policies of one generation. Never changes.
struct Rules {
  std::uint64_t generation = 1;
  std::map<std::string_view, Policy, std::less<>> policies;

  const Policy* find(std::string_view name) const {
    const auto found = policies.find(name);
    return found == policies.end() ? nullptr : &found->second;
  }
};

// The rules that follow `old` (none at the start) at `now`: limits that go on remember what they
// were. Fingerprints are for a table with that seed.
std::shared_ptr<const Rules> compile(const policy::PolicySet& policies, const Rules* old,
                                     std::uint64_t seed, Instant now, Names& names);

}  // namespace weir::engine
