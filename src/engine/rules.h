#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/key_groups.h"
#include "engine/price_epochs.h"
#include "engine/price_registry.h"
#include "engine/split.h"
#include "policy/policy_file.h"
#include "store/memory/slower_limits.h"
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

struct Together;

// Some of the rules that are decided together, for requests that lack what others count by. Made
// when they are first needed; a copy begins with none. Thread-safe.
class Reductions {
 public:
  Reductions();
  ~Reductions();
  Reductions(const Reductions& other);
  Reductions& operator=(const Reductions& other);

  // All rules of `all` but those whose bit is set. Lives as long as this.
  const Together& without(const Together& all, std::uint32_t left_out) const;

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::uint32_t, std::unique_ptr<const Together>> made_;
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
  Reductions reductions{};

  void add(Rule rule, std::string_view name);
  // Those of them for which the subject has what they count by.
  const Together& countable(const policy::Subject& subject) const;
};

// Whose calls are refused, and until when. Never changes.
struct Blocks {
  policy::PatternIndex index;
  std::vector<Instant> until;  // by position
};

// Which limits a policy has for which keys.
using LimitGroups = KeyGroups<Together>;
using Overrides = KeyLayer<Together>;

struct Policy : LimitGroups {
  std::string_view name;  // lives as long as the engine
  WhenFull when_full = WhenFull::share;
  policy::OnStoreFailure on_store_failure = policy::OnStoreFailure::local;
  std::string head{};       // of its keys' names on the fleet
  policy::ForAll orders{};  // under which the rules were made
  std::shared_ptr<const Blocks> blocks{};
  bool splits = false;  // some of its rules, of whatever key
  std::shared_ptr<const PolicyEpochs> epochs{};
  bool has_changed = false;                 // the prices: there is more than one epoch
  const PriceRegistry* registry = nullptr;  // of the engine

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
  std::uint64_t generation = 0;      // how often policies have been replaced
  std::uint64_t edition = 0;         // how often they, the hours or the orders have changed
  std::uint64_t leased_edition = 0;  // the one that has last changed prices of leased limits
  Instant since{};                   // when they were made
  core::Span span{Instant::min(), Instant::max()};
  std::map<std::string_view, Policy, std::less<>> policies;
  bool splits = false;           // some of them
  Standing standing{};           // by which limits were split
  policy::Ends grow{};           // when something that is split changes by itself, in no order
  store::SlowerLimits slower{};  // than those they have replaced
  // Of policies that have left, so that what was used under them stays used if they return.
  std::map<std::string_view, std::shared_ptr<const PolicyEpochs>, std::less<>> gone{};

  const Policy* find(std::string_view name) const {
    const auto found = policies.find(name);
    return found == policies.end() ? nullptr : &found->second;
  }
};

// Where rules count.
struct Place {
  std::uint64_t seed = 0;  // of the table that fingerprints are for
  policy::Sharing sharing = policy::Sharing::none;
  PriceRegistry* registry = nullptr;
};

// When the rules change by themselves beside their schedules, in no order.
policy::Ends changes_by_itself(const policy::PolicySet& policies, const Rules& rules);

// The rules of no policies, before the first ones. The edition is greater than any whose states may
// be in the table, so that no state is taken for one of another epoch.
Rules no_rules(std::uint64_t edition);

// The rules that follow `old` at `now`: limits that go on remember what they were.
std::shared_ptr<const Rules> compile(const policy::PolicySet& policies, const Rules& old,
                                     const Place& place, Instant now, Names& names);

// The rules of the same policies at a time when their schedules may say something else, orders may
// have ended, and the node's part of a limit may be another one.
std::shared_ptr<const Rules> at_other_hours(const policy::PolicySet& policies, const Rules& old,
                                            const Place& place, Instant now, Names& names,
                                            const Standing& standing);

}  // namespace weir::engine
