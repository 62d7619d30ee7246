#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/split.h"
#include "policy/policy_file.h"
#include "store/memory/fingerprint.h"
#include "weir/engine.h"

namespace weir::engine {

// What a limit is of which this node has a part.
struct Split {
  core::Limit whole;
  Share share{};
};

// A limit of a policy, ready to be asked.
struct Rule {
  core::Limit limit;
  std::vector<std::string> by;
  policy::Cost cost;
  bool shadow = false;
  std::uint64_t identity = 0;  // by which its usage is known
  bool has_record = false;
  Nanos patience{0};    // of callers who do not say how long they would wait
  bool shared = false;  // counts on the fleet
  bool leased = false;  // the same, and permits are borrowed from there ahead of need
  std::string tail{};   // of its keys' names there
  store::Fingerprint sharing{};
  std::shared_ptr<const Split> split{};  // of a limit that is split; the limit is this node's part

  // Of a limit that is split: this node has nothing of it, and what `limit` says counts for nobody.
  bool is_closed() const { return split != nullptr && split->share.part == 0; }
};

// Rules that are decided together.
struct Together {
  std::vector<Rule> rules;
  std::vector<std::string_view> names;  // of each, or its position; live as long as the engine
  bool has_concurrency = false;
  bool shares = false;  // some of them count on the fleet
  bool leases = false;  // some of those are leased
  bool asks = false;    // some of those are not: the fleet is asked for each call
  bool splits = false;  // this node has a part of some of them
  LimitOrigin origin{};
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
  policy::OnStoreFailure on_store_failure = policy::OnStoreFailure::local;
  std::string head{};       // of its keys' names on the fleet
  policy::ForAll orders{};  // under which the rules were made
  // None for most policies. The first one in which a key is counts.
  std::shared_ptr<const Overrides> boosts{};
  std::shared_ptr<const Overrides> overrides{};
  std::shared_ptr<const Blocks> blocks{};
  bool splits = false;  // some of its rules, of whatever key

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

// Limits of this node under which the same usage is remembered for longer than under those they
// follow: some, and when what was used by then will have been forgotten under all others.
struct Slower {
  std::vector<core::Limit> limits;
  Instant others_until{};

  void add(const Slower& more) {
    limits.insert(limits.end(), more.limits.begin(), more.limits.end());
    others_until = std::max(others_until, more.others_until);
  }
};

// The policies of one generation, as they are for a span of time. Never changes.
struct Rules {
  std::uint64_t generation = 1;  // how often policies have been replaced
  std::uint64_t edition = 1;     // how often they, the hours or the orders have changed
  core::Span span{Instant::min(), Instant::max()};
  std::map<std::string_view, Policy, std::less<>> policies;
  bool splits = false;  // some of them
  Standing standing{};  // by which limits were split
  policy::Ends grow{};  // when something that is split changes by itself, in no order
  Slower slower{};

  const Policy* find(std::string_view name) const {
    const auto found = policies.find(name);
    return found == policies.end() ? nullptr : &found->second;
  }
};

// Where rules count.
struct Place {
  std::uint64_t seed = 0;  // of the table that fingerprints are for
  policy::Sharing sharing = policy::Sharing::none;
};

// When the rules change by themselves beside their schedules, in no order.
policy::Ends changes_by_itself(const policy::PolicySet& policies, const Rules& rules);

// The rules that follow `old` (none at the start) at `now`: limits that go on remember what they
// were.
std::shared_ptr<const Rules> compile(const policy::PolicySet& policies, const Rules* old,
                                     const Place& place, Instant now, Names& names);

// The rules of the same policies at a time when their schedules may say something else, orders may
// have ended, and the node's part of a limit may be another one.
std::shared_ptr<const Rules> at_other_hours(const policy::PolicySet& policies, const Rules& old,
                                            const Place& place, Instant now, Names& names,
                                            const Standing& standing);

}  // namespace weir::engine
