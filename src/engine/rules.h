#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
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
  std::vector<std::string> by;
  policy::Cost cost;
  bool shadow = false;
  std::uint64_t identity = 0;  // by which its usage is known
  bool has_record = false;
  Nanos patience{0};  // of callers who do not say how long they would wait
  store::Fingerprint sharing{};
};

// Rules that are decided together.
struct Together {
  std::vector<Rule> rules;
  std::vector<std::string_view> names;  // of each, or its position; live as long as the engine
  bool has_concurrency = false;
};

// The rules of keys that have their own. Never changes.
struct Overrides {
  policy::PatternIndex index;
  std::vector<Together> rules;  // by position

  const Together* find(const policy::Subject& subject) const {
    const auto own = index.find(subject);
    return own ? &rules[*own] : nullptr;
  }
};

// Whose calls are refused, and until when. Never changes.
struct Blocks {
  policy::PatternIndex index;
  std::vector<Instant> until;  // by position
};

struct Policy {
  std::string_view name;  // lives as long as the engine
  Together usual;
  WhenFull when_full = WhenFull::share;
  policy::ForAll orders{};  // under which the rules were made
  // None for most policies. The first one in which a key is counts.
  std::shared_ptr<const Overrides> boosts{};
  std::shared_ptr<const Overrides> overrides{};
  std::shared_ptr<const Blocks> blocks{};

  const Together& rules_for(const policy::Subject& subject) const {
    if (overrides == nullptr && boosts == nullptr) [[likely]]
      return usual;
    for (const Overrides* some : {boosts.get(), overrides.get()}) {
      if (some == nullptr) continue;
      if (const Together* own = some->find(subject)) return *own;
    }
    return usual;
  }

  // Until when an operator has blocked a subject, if one has.
  std::optional<Instant> blocked_until(const policy::Subject& subject) const {
    if (blocks == nullptr) [[likely]]
      return std::nullopt;
    const auto position = blocks->index.find(subject);
    if (!position) return std::nullopt;
    return blocks->until[*position];
  }
};

// Texts that live as long as the engine, so that answers can point to them.
using Names = std::set<std::string, std::less<>>;

// The policies of one generation, as they are for a span of time. Never changes.
struct Rules {
  std::uint64_t generation = 1;  // how often policies have been replaced
  std::uint64_t edition = 1;     // how often they, the hours or the orders have changed
  core::Span span{Instant::min(), Instant::max()};
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

// The rules of the same policies at a time when their schedules may say something else, and orders
// may have ended.
std::shared_ptr<const Rules> at_other_hours(const policy::PolicySet& policies, const Rules& old,
                                            std::uint64_t seed, Instant now, Names& names);

}  // namespace weir::engine
