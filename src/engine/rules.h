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

// A split limit: the limit as configured, and this node's share of it.
struct SplitState {
  core::Limit whole;
  SplitShare share{};
};

// A compiled limit of a policy.
struct Rule {
  core::Limit limit;
  std::vector<std::string> by;
  policy::Cost cost;
  bool shadow = false;
  std::uint64_t identity = 0;  // hash of the limit's identity: usage survives a reload under it
  bool has_record = false;
  Nanos default_max_wait{0};  // max_wait of callers that set none
  bool on_fleet = false;      // counts in the fleet's store
  bool leased = false;        // the same, and permits are leased ahead of need
  std::string tail{};         // suffix of the names of its keys in the fleet's store
  store::Fingerprint overflow_key{};
  std::shared_ptr<const SplitState> split{};  // of a split limit: then `limit` is this node's part

  // True if this node's share of a split limit is 0. Then `limit` applies to no call.
  bool is_closed() const { return split != nullptr && split->share.part == 0; }
};

struct RuleGroup;

// Caches subsets of a rule group, for requests that lack a part of the key that some of its rules
// count by. Subsets are made on first use; a copy starts empty. Thread-safe.
class RuleSubsets {
 public:
  RuleSubsets();
  ~RuleSubsets();
  RuleSubsets(const RuleSubsets& other);
  RuleSubsets& operator=(const RuleSubsets& other);

  // The rules of `all` without those whose bit is set. The result lives as long as this object.
  const RuleGroup& without(const RuleGroup& all, std::uint32_t omitted) const;

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::uint32_t, std::unique_ptr<const RuleGroup>> made_;
};

// The rules that are decided together, all or nothing.
struct RuleGroup {
  std::vector<Rule> rules;
  // name or position of each rule; they live as long as the engine
  std::vector<std::string_view> names;
  bool has_concurrency = false;
  bool has_fleet = false;     // some of them count in the fleet's store
  bool has_leased = false;    // some of those are leased
  bool has_unleased = false;  // some of those are not leased: each call is a question to the fleet
  bool has_split = false;     // some of them are split
  LimitOrigin origin{};
  RuleSubsets subsets{};

  void add(Rule rule, std::string_view name);
  // The rules whose key parts the subject has.
  const RuleGroup& applicable_to(const policy::Subject& subject) const;
};

// The keys that operators have blocked, and until when. Immutable.
struct Blocks {
  policy::PatternIndex index;
  std::vector<Instant> until;  // by position
};

// The limits of a policy for each group of its keys.
using LimitGroups = KeyGroups<RuleGroup>;
using RuleLayer = KeyLayer<RuleGroup>;

struct CompiledPolicy : LimitGroups {
  std::string_view name;  // lives as long as the engine
  WhenFull when_full = WhenFull::share;
  policy::OnStoreFailure on_store_failure = policy::OnStoreFailure::local;
  std::string head{};             // prefix of the names of its keys in the fleet's store
  policy::GlobalOrders orders{};  // orders for all keys, applied to the rules below
  std::shared_ptr<const Blocks> blocks{};
  bool has_split = false;  // true if a rule of any key is split
  std::shared_ptr<const PolicyEpochs> epochs{};
  bool has_changed = false;                 // there is more than one price epoch
  const PriceRegistry* registry = nullptr;  // owned by the engine

  // The end of the block of a subject, if an operator has blocked it.
  std::optional<Instant> blocked_until(const policy::Subject& subject) const {
    if (blocks == nullptr) [[likely]]
      return std::nullopt;
    const auto position = blocks->index.find(subject);
    if (!position) return std::nullopt;
    return blocks->until[*position];
  }
};

// Interned texts that live as long as the engine, so that verdicts can point to them.
using StringPool = std::set<std::string, std::less<>>;

// The compiled policies of one generation for a span of time. Immutable.
struct Rules {
  std::uint64_t generation = 0;  // number of replacements of the policies
  std::uint64_t edition = 0;     // number of changes by replacements, schedules, orders and shares
  std::uint64_t leased_edition = 0;  // edition of the last change of leased limits' prices
  Instant since{};                   // when they were compiled
  core::Span span{Instant::min(), Instant::max()};
  std::map<std::string_view, CompiledPolicy, std::less<>> policies;
  bool has_split = false;          // some of the policies have split limits
  FleetPosition fleet_position{};  // the fleet position by which limits were split
  policy::Ends growth_times{};     // when shares of split limits change; not sorted
  store::SlowerLimits slower{};    // limits that forget usage more slowly than those they replaced
  // Price epochs of removed policies. Usage under them still counts when they return.
  std::map<std::string_view, std::shared_ptr<const PolicyEpochs>, std::less<>> removed{};

  const CompiledPolicy* find(std::string_view name) const {
    const auto found = policies.find(name);
    return found == policies.end() ? nullptr : &found->second;
  }
};

// The stores that rules are compiled for.
struct CompileTarget {
  std::uint64_t seed = 0;  // seed of the table's fingerprints
  policy::Sharing sharing_mode = policy::Sharing::none;
  PriceRegistry* registry = nullptr;
};

// When the rules change other than by their schedules: ends of orders and of waiting shares. Not
// sorted.
policy::Ends unscheduled_changes(const policy::PolicySet& policies, const Rules& rules);

// Rules without policies, before the first ones. The edition must be greater than any edition in
// the table's states, so that no state is read under a wrong epoch.
Rules no_rules(std::uint64_t edition);

// Compiles `policies` as the successor of `old` at `now`. A limit that continues keeps its usage.
std::shared_ptr<const Rules> compile(const policy::PolicySet& policies, const Rules& old,
                                     const CompileTarget& target, Instant now, StringPool& strings);

// Compiles the same policies for another time: the schedule's hours, the orders or this node's
// shares may have changed.
std::shared_ptr<const Rules> recompile(const policy::PolicySet& policies, const Rules& old,
                                       const CompileTarget& target, Instant now,
                                       StringPool& strings, const FleetPosition& fleet_position);

}  // namespace weir::engine
