#include "engine/rules.h"

#include <set>
#include <tuple>
#include <type_traits>
#include <unordered_map>

#include "base/saturating.h"
#include "engine/known_prices.h"
#include "policy/identity.h"
#include "policy/key.h"
#include "store/key_name.h"
#include "store/why_not_shareable.h"

namespace weir::engine {

namespace {

std::string_view intern(StringPool& strings, std::string text) {
  return *strings.insert(std::move(text)).first;
}

using ByIdentity = std::unordered_map<std::uint64_t, const Rule*>;

// The rules that the new rules continue, by identity.
struct PreviousRules {
  const CompiledPolicy* old = nullptr;
  ByIdentity limits{};

  void add(const RuleGroup& group) {
    for (const Rule& rule : group.rules) limits.insert_or_assign(rule.identity, &rule);
  }

  static PreviousRules of(const CompiledPolicy* old) {
    PreviousRules previous{.old = old};
    if (old != nullptr) previous.add(old->defaults);
    return previous;
  }

  // The same for the keys of a pattern: the rules that most of these keys had.
  PreviousRules for_pattern(const policy::Pattern& pattern) const {
    PreviousRules previous = *this;
    if (old != nullptr) previous.add(old->limits_for(pattern));
    return previous;
  }
};

Rule compile(const policy::Limit& limit, std::uint64_t identity, const CompileTarget& target) {
  Rule rule{.limit = limit.limit,
            .by = limit.by,
            .cost = limit.cost,
            .shadow = limit.shadow,
            .identity = identity};
  rule.has_record = std::holds_alternative<core::SlidingLog>(limit.limit) ||
                    std::holds_alternative<core::Concurrency>(limit.limit);
  rule.default_max_wait = core::is_queue(limit.limit) ? kForever : Nanos{0};
  rule.overflow_key =
      store::fingerprint(target.seed, identity, store::KeyKind::overflow, {}, rule.has_record);
  rule.on_fleet = policy::is_shared(limit, target.sharing_mode);
  rule.leased = rule.on_fleet && limit.scope == policy::Scope::leased &&
                !store::why_not_leasable(limit.limit);
  return rule;
}

// The part of a split limit that this node enforces.
core::Limit limit_of(const SplitState& split, const Rule* was, Instant now) {
  const Permits part = split.share.part;
  // A part of 0 is never asked. The limit still tells what earlier usage was counted under.
  if (part == 0) return was != nullptr ? was->limit : split.whole;
  core::Limit limit = core::part_of(split.whole, part);
  return split.share.starts_empty ? core::starting_empty(limit, now) : limit;
}

// Appends the times at which rules change without a reload.
void append_changes(const RuleGroup& limits, Instant now, policy::Ends& ends) {
  for (const Rule& rule : limits.rules) {
    if (rule.split == nullptr) continue;
    if (rule.split->share.waits()) ends.push_back(rule.split->share.grows_at);
    const auto* bucket = std::get_if<core::Bucket>(&rule.limit);
    if (bucket != nullptr && bucket->full_at > now) ends.push_back(bucket->full_at);
  }
}

void append_changes(const CompiledPolicy& policy, Instant now, policy::Ends& ends) {
  append_changes(policy.defaults, now, ends);
  for (const RuleLayer* some : {policy.overrides.get(), policy.boosts.get()}) {
    if (some == nullptr) continue;
    for (const RuleGroup& own : some->limits) append_changes(own, now, ends);
  }
}

bool has_split_limits(const CompiledPolicy& policy) {
  bool has_split = policy.defaults.has_split;
  for (const RuleLayer* some : {policy.overrides.get(), policy.boosts.get()}) {
    if (some == nullptr) continue;
    for (const RuleGroup& own : some->limits) has_split = has_split || own.has_split;
  }
  return has_split;
}

LimitOrigin origin_of(const policy::Override& own) {
  return {.kind = LimitOrigin::Kind::override_of_key, .text = own.pattern.written()};
}

// The origin of the limits of keys without an override.
LimitOrigin defaults_origin(const policy::Policy& written, Instant now) {
  if (written.schedule.empty()) return {};
  const auto shift = policy::active_shift_at(written.schedule, now).shift;
  if (!shift) return {};
  return {.kind = LimitOrigin::Kind::schedule,
          .text = policy::to_text(written.schedule[*shift].hours)};
}

// When `used` permits that were taken at `now` no longer count.
Instant rest_of(const core::Limit& limit, Permits used, Instant now) {
  const auto rest = [&](const auto& l) -> Instant {
    using L = std::remove_cvref_t<decltype(l)>;
    if constexpr (core::kHasState<L>) {
      return core::rest_at(l, core::debit(l, {}, now, used), now);
    } else if constexpr (std::is_same_v<L, core::SlidingLog>) {
      return later(in_range(now), l.period);
    } else {
      return {};  // a hold time is fixed when the holder enters
    }
  };
  return std::visit(rest, limit);
}

const Rule* find_rule(const RuleGroup& group, std::uint64_t identity) {
  const auto found = std::ranges::find(group.rules, identity, &Rule::identity);
  return found != group.rules.end() ? &*found : nullptr;
}

LimitPrices prices_of(const RuleGroup& group) {
  LimitPrices prices;
  for (const Rule& rule : group.rules) {
    const auto* bucket = std::get_if<core::Bucket>(&rule.limit);
    if (bucket == nullptr) continue;
    prices.push_back(LimitPrice::of(rule.identity, *bucket));
    prices.back().frozen = rule.is_closed();
  }
  return prices;
}

std::shared_ptr<const PriceLayer> prices_of(const RuleLayer* layer) {
  if (layer == nullptr) return nullptr;
  auto prices = std::make_shared<PriceLayer>();
  prices->index = layer->index;
  prices->patterns = layer->patterns;
  prices->boosted = layer->boosted;
  for (const RuleGroup& own : layer->limits) prices->limits.push_back(prices_of(own));
  return prices;
}

// The prices of `made`. A layer that it shares with `old` has the prices of `last` already: it may
// have very many keys, and is not computed again.
PriceGroups prices_of(const CompiledPolicy& made, const CompiledPolicy* old,
                      const PolicyEpoch* last) {
  const bool same_overrides = old != nullptr && made.overrides == old->overrides;
  return {.defaults = prices_of(made.defaults),
          .boosts = prices_of(made.boosts.get()),
          .overrides = same_overrides ? last->prices.overrides : prices_of(made.overrides.get())};
}

void set_stamps(RuleGroup& group, const LimitPrices& prices) {
  for (Rule& rule : group.rules) {
    auto* bucket = std::get_if<core::Bucket>(&rule.limit);
    if (bucket != nullptr) bucket->stamp = find_price(prices, rule.identity)->stamp;
  }
}

std::shared_ptr<const RuleLayer> with_stamps(const std::shared_ptr<const RuleLayer>& layer,
                                             const PriceLayer* prices) {
  if (layer == nullptr) return layer;
  auto next = std::make_shared<RuleLayer>(*layer);
  for (std::size_t i = 0; i < next->limits.size(); ++i) {
    set_stamps(next->limits[i], prices->limits[i]);
  }
  return next;
}

// Continues the last of `epochs`: the prices are the same.
void continue_epoch(CompiledPolicy& made, const CompiledPolicy* old,
                    std::shared_ptr<const PolicyEpochs> epochs) {
  const PriceGroups& prices = epochs->back()->prices;
  set_stamps(made.defaults, prices.defaults);
  made.boosts = with_stamps(made.boosts, prices.boosts.get());
  const bool same_overrides = old != nullptr && made.overrides == old->overrides;
  if (!same_overrides) made.overrides = with_stamps(made.overrides, prices.overrides.get());
  made.epochs = std::move(epochs);
}

bool boosts_some(const policy::Order& order) {
  return order.verb == policy::Order::Verb::boost && !order.who.empty();
}

bool has_boosts(const policy::Policy& written) {
  return std::ranges::any_of(written.orders, boosts_some);
}

core::Limit inheriting_start(core::Limit next, const core::Limit& old, Instant now) {
  const auto* from = std::get_if<core::Bucket>(&old);
  auto* to = std::get_if<core::Bucket>(&next);
  if (from != nullptr && to != nullptr) *to = core::inheriting_start(*to, *from, now);
  return next;
}

// When usage that counts until `then` under `old` stops counting if `next` replaces `old` at `now`.
// A bucket's debt drains at the new price.
Instant forgotten_under(const core::Limit& next, const core::Limit& old, Instant then,
                        Instant now) {
  const auto* from = std::get_if<core::Bucket>(&old);
  const auto* to = std::get_if<core::Bucket>(&next);
  if (from == nullptr || to == nullptr || then <= now) return then;
  core::Bucket owing = *from;
  owing.full_at = then;
  return core::inheriting_start(*to, owing, now).full_at;
}

// Compiles policies into rules for one time and one table.
class Compiler {
 public:
  // `old` are the previous rules, and `fleet_position` is the current one.
  Compiler(const CompileTarget& target, Instant now, StringPool& strings,
           const FleetPosition& fleet_position, const Rules& old, core::EpochNumber epoch)
      : target_(target),
        now_(now),
        strings_(strings),
        fleet_position_(fleet_position),
        old_(old),
        epoch_(epoch),
        slower_(old.slower.at(now)) {
    // Founders get their parts at once only the first time. After that, other nodes may have used
    // what this node did not have.
    fleet_position_.founding = fleet_position.founding && !gives_parts(old.fleet_position);
  }

  CompiledPolicy compile_policy(const std::string& name, const policy::Policy& written) {
    const CompiledPolicy* old = old_.find(name);
    const PreviousRules previous = PreviousRules::of(old);
    CompiledPolicy made;
    made.name = intern(strings_, name);
    made.when_full = written.when_full;
    made.on_store_failure = written.on_store_failure;
    made.head = store::key_prefix(name);
    made.registry = target_.registry;
    made.orders = policy::global_orders(written.orders, now_);
    if (!written.overrides.empty())
      made.overrides = compile_overrides(made, written.overrides, previous);
    apply_time(made, written, previous);
    if (old != nullptr) note_slower_limits(made, *old);
    set_epochs(made, old, old != nullptr ? old->epochs : epochs_of_removed(name));
    return made;
  }

  // Compiles the same policy for another time.
  CompiledPolicy recompile_policy(const policy::Policy& written, const CompiledPolicy& old) {
    const PreviousRules previous = PreviousRules::of(&old);
    CompiledPolicy made = old;
    made.orders = policy::global_orders(written.orders, now_);
    // Overrides may be very many: compile them again only when they can have changed. A boost
    // changes the prices of its keys, and they must not be taken for keys that were never boosted.
    const bool had_boosts = old.boosts != nullptr || has_boosts(written);
    if (old.overrides != nullptr && (made.orders != old.orders || old.has_split || had_boosts)) {
      made.overrides = compile_overrides(made, written.overrides, previous);
    }
    apply_time(made, written, previous);
    note_slower_limits(made, old);
    set_epochs(made, &old, old.epochs);
    return made;
  }

  // The limits that became slower by this compilation.
  store::SlowerLimits slower() { return std::move(slower_); }

 private:
  std::shared_ptr<const PolicyEpochs> epochs_of_removed(std::string_view name) const {
    const auto removed = old_.removed.find(name);
    return removed != old_.removed.end() ? removed->second : nullptr;
  }

  // Begins an epoch if the prices differ from those of the last of `epochs`. `old` is the previous
  // policy, or null if it had been removed.
  void set_epochs(CompiledPolicy& made, const CompiledPolicy* old,
                  std::shared_ptr<const PolicyEpochs> epochs) {
    const PolicyEpoch* const last = epochs != nullptr ? epochs->back().get() : nullptr;
    PriceGroups prices = prices_of(made, old, last);
    if (last != nullptr && same_prices(prices, last->prices)) {
      continue_epoch(made, old, std::move(epochs));
    } else {
      PolicyEpoch next{.number = epoch_, .since = now_, .prices = std::move(prices)};
      next.debt_bound = DebtBound::of(next.prices);
      made.epochs =
          std::make_shared<const PolicyEpochs>(followed_by(epochs.get(), std::move(next)));
      note_rises(*made.epochs, slower_);
    }
    made.has_changed = made.epochs->size() > 1;
  }

  // Keys move from each group of `old` to their group in `made`, and a new group takes keys from
  // the group that had them. Both directions are compared.
  void note_slower_limits(const CompiledPolicy& made, const CompiledPolicy& old) {
    made.for_each([&](const policy::Pattern* pattern, const RuleGroup& next) {
      note_slower_limits(next, pattern != nullptr ? old.limits_for(*pattern) : old.defaults);
    });
    old.for_each([&](const policy::Pattern* pattern, const RuleGroup& was) {
      if (pattern != nullptr) note_slower_limits(made.limits_for(*pattern), was);
    });
  }

  void note_slower_limits(const RuleGroup& next, const RuleGroup& was) {
    for (const Rule& rule : next.rules) {
      const Rule* before = find_rule(was, rule.identity);
      if (before == nullptr || before->limit.index() != rule.limit.index()) continue;
      if (!std::holds_alternative<core::Bucket>(rule.limit)) note_slower(rule.limit, before->limit);
    }
  }

  // For limits other than buckets.
  void note_slower(const core::Limit& next, const core::Limit& old) {
    const Permits used = core::capacity(old);
    const Instant before = rest_of(old, used, now_);
    const Instant after = rest_of(next, used, now_);
    if (after <= before || !noted_.emplace(next.index(), before, after).second) return;
    slower_.add(store::SlowerLimits::LimitChange{.limit = next, .since = now_, .until = before});
  }

  // Sets everything that depends on the time.
  void apply_time(CompiledPolicy& made, const policy::Policy& written,
                  const PreviousRules& previous) {
    const std::vector<policy::Limit>& defaults = policy::default_limits(written, now_);
    KnownPrices known;
    if (!written.schedule.empty() || !made.orders.changes.empty()) {
      known.add(made.name, made.orders, written);
    }
    made.defaults = compile_group(made.name, policy::under(made.orders, defaults), previous, known);
    made.defaults.origin = defaults_origin(written, now_);
    made.boosts = compile_boosts(made, written, previous);
    made.blocks = compile_blocks(written.orders);
    made.has_split = has_split_limits(made);
  }

  RuleGroup compile_group(std::string_view name, const std::vector<policy::Limit>& limits,
                          const PreviousRules& previous, const KnownPrices& known) {
    RuleGroup group;
    const auto identities = policy::identities_of(name, limits);
    const auto readable = policy::readable_identities_of(limits);
    for (std::size_t i = 0; i < limits.size(); ++i) {
      const std::uint64_t identity = store::hash_of(identities[i]).low;
      Rule rule = compile(limits[i], identity, target_);
      if (rule.on_fleet) {
        rule.tail = store::key_suffix(readable[i]);
      } else {
        const auto found = previous.limits.find(identity);
        const Rule* was = found != previous.limits.end() ? found->second : nullptr;
        if (policy::is_split(limits[i], target_.sharing_mode)) {
          rule.split = std::make_shared<SplitState>(split_of(limits[i].limit, was));
          rule.limit = limit_of(*rule.split, was, now_);
        }
        if (was != nullptr) rule.limit = inheriting_start(rule.limit, was->limit, now_);
      }
      if (auto* bucket = std::get_if<core::Bucket>(&rule.limit)) {
        *bucket = core::in_epoch(*bucket, epoch_);
        bucket->known_rise = known.highest_rise(identity, *bucket);
        if (target_.registry != nullptr) target_.registry->add(*bucket);
      }
      const std::string& own = limits[i].name;
      group.add(std::move(rule), intern(strings_, own.empty() ? std::to_string(i) : own));
    }
    return group;
  }

  // The share of a limit that this node did not have before starts at 0: the limit is new, returns,
  // or had another scope. Other nodes may have had it for longer, and may have used what is now
  // this node's part. A node that becomes a member starts at 0 as well, whatever it used on its
  // own, unless the fleet begins with it.
  SplitState split_of(const core::Limit& whole, const Rule* was) const {
    const bool goes_on = was != nullptr && was->split != nullptr;
    if (!goes_on && !fleet_position_.has_joined())
      return {whole, first_share(whole, fleet_position_)};
    const bool was_member = old_.fleet_position.has_joined();
    const bool begins = !goes_on || (fleet_position_.has_joined() && !was_member);
    FleetPosition fleet_position = fleet_position_;
    if (!goes_on) fleet_position.founding = false;
    if (begins)
      return {whole, next_share({.whole = core::capacity(whole)}, whole, fleet_position, now_)};
    SplitShare share = was->split->share;
    if (share.waits()) {
      share.grows_at = forgotten_under(whole, was->split->whole, share.grows_at, now_);
    }
    return {whole, next_share(share, whole, fleet_position, now_)};
  }

  std::shared_ptr<RuleLayer> compile_overrides(const CompiledPolicy& policy,
                                               const std::vector<policy::Override>& overrides,
                                               const PreviousRules& previous) {
    std::vector<KnownPrices> known(overrides.size());
    if (!policy.orders.changes.empty()) {
      for (std::size_t i = 0; i < overrides.size(); ++i) {
        known[i].add(policy.name, policy.orders, overrides[i].limits);
      }
    }
    return compile_overrides(policy, overrides, previous, known);
  }

  std::shared_ptr<RuleLayer> compile_overrides(const CompiledPolicy& policy,
                                               const std::vector<policy::Override>& overrides,
                                               const PreviousRules& previous,
                                               const std::vector<KnownPrices>& known) {
    auto made = std::make_shared<RuleLayer>();
    made->index = policy::PatternIndex(overrides);
    for (std::size_t i = 0; i < overrides.size(); ++i) {
      const policy::Override& own = overrides[i];
      made->patterns.push_back(own.pattern);
      made->limits.push_back(compile_group(policy.name, policy::under(policy.orders, own.limits),
                                           previous.for_pattern(own.pattern), known[i]));
      made->limits.back().origin = origin_of(own);
    }
    return made;
  }

  // A boost is compiled as an override with the scaled limits of its keys.
  std::shared_ptr<const RuleLayer> compile_boosts(const CompiledPolicy& policy,
                                                  const policy::Policy& written,
                                                  const PreviousRules& previous) {
    const policy::PatternIndex none;
    const auto boosted = policy::boosted_patterns(
        written.orders, written.overrides,
        policy.overrides != nullptr ? policy.overrides->index : none, now_);
    if (boosted.empty()) return nullptr;
    std::vector<policy::Override> overrides;
    std::vector<KnownPrices> known(boosted.size());  // prices after the boosts have ended
    for (std::size_t i = 0; i < boosted.size(); ++i) {
      const policy::BoostedPattern& each = boosted[i];
      const std::vector<policy::Limit>& limits =
          each.own ? written.overrides[*each.own].limits : policy::default_limits(written, now_);
      overrides.push_back({each.pattern, policy::under(each.by.change, limits)});
      if (each.own) {
        known[i].add(policy.name, policy.orders, limits);
      } else {
        known[i].add(policy.name, policy.orders, written);
      }
    }
    auto made = compile_overrides(policy, overrides, previous, known);
    for (std::size_t i = 0; i < boosted.size(); ++i) {
      const auto own = boosted[i].own;
      made->limits[i].origin =
          own ? origin_of(written.overrides[*own]) : defaults_origin(written, now_);
      made->boosted.push_back(own.value_or(RuleLayer::kDefaults));
    }
    return made;
  }

  std::shared_ptr<const Blocks> compile_blocks(const std::vector<policy::Order>& orders) const {
    auto made = std::make_shared<Blocks>();
    std::vector<policy::Override> patterns;
    for (const policy::Order& order : orders) {
      if (order.verb != policy::Order::Verb::block || order.until <= now_) continue;
      patterns.push_back({policy::Pattern::of(order.who), {}});
      made->until.push_back(order.until);
    }
    if (patterns.empty()) return nullptr;
    made->index = policy::PatternIndex(patterns);
    return made;
  }

  const CompileTarget target_;
  Instant now_;
  StringPool& strings_;
  FleetPosition fleet_position_;
  const Rules& old_;
  core::EpochNumber epoch_;
  std::set<std::tuple<std::size_t, Instant, Instant>> noted_;
  store::SlowerLimits slower_;
};

// The policies with buckets that were removed before `next` or are removed by it. Only buckets need
// a price history: the states of other algorithms tell by themselves what was used.
std::map<std::string_view, std::shared_ptr<const PolicyEpochs>, std::less<>> removed_policies(
    const Rules& old, const Rules& next) {
  constexpr std::size_t max_removed = 1024;
  auto removed = old.removed;
  for (const auto& [name, policy] : next.policies) removed.erase(name);
  for (const auto& [name, policy] : old.policies) {
    const bool matters = policy.epochs->back()->debt_bound.capacity > 0;
    if (next.find(name) == nullptr && matters && removed.size() < max_removed) {
      removed.emplace(name, policy.epochs);
    }
  }
  return removed;
}

bool has_leased_limits(const CompiledPolicy& policy) {
  bool some = false;
  policy.for_each(
      [&](const policy::Pattern*, const RuleGroup& limits) { some |= limits.has_leased; });
  return some;
}

// The edition for lease caches. It changes only with the prices of leased limits: other reloads and
// changed shares leave leases valid.
std::uint64_t leased_edition(const Rules& old, const Rules& next) {
  for (const auto& [name, policy] : old.policies) {
    if (!has_leased_limits(policy)) continue;
    const CompiledPolicy* const now = next.find(name);
    if (now == nullptr || now->epochs != policy.epochs) return next.edition;
  }
  return old.leased_edition;
}

// Sets what depends on all policies together.
void set_summary(Rules& rules, const Rules& old, const policy::PolicySet& policies,
                 const FleetPosition& fleet_position, Instant now) {
  rules.leased_edition = leased_edition(old, rules);
  rules.since = now;
  rules.fleet_position = fleet_position;
  rules.has_split = false;
  rules.growth_times.clear();
  for (const auto& [name, policy] : rules.policies) {
    if (!policy.has_split) continue;
    rules.has_split = true;
    append_changes(policy, now, rules.growth_times);
  }
  rules.span = policy::steady_span(policy::schedules_of(policies), now,
                                   unscheduled_changes(policies, rules));
}

}  // namespace

void RuleGroup::add(Rule rule, std::string_view name) {
  has_fleet |= rule.on_fleet;
  has_leased |= rule.on_fleet && rule.leased;
  has_unleased |= rule.on_fleet && !rule.leased;
  has_split |= rule.split != nullptr;
  has_concurrency |= std::holds_alternative<core::Concurrency>(rule.limit);
  rules.push_back(std::move(rule));
  names.push_back(name);
}

const RuleGroup& RuleGroup::applicable_to(const policy::Subject& subject) const {
  std::uint32_t omitted = 0;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (policy::lacks_part(subject, rules[i].by)) omitted |= std::uint32_t{1} << i;
  }
  return omitted == 0 ? *this : subsets.without(*this, omitted);
}

RuleSubsets::RuleSubsets() = default;
RuleSubsets::~RuleSubsets() = default;
RuleSubsets::RuleSubsets(const RuleSubsets&) {}
RuleSubsets& RuleSubsets::operator=(const RuleSubsets&) {
  const std::lock_guard lock(mutex_);
  made_.clear();
  return *this;
}

const RuleGroup& RuleSubsets::without(const RuleGroup& all, std::uint32_t omitted) const {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<const RuleGroup>& made = made_[omitted];
  if (made != nullptr) return *made;
  auto some = std::make_unique<RuleGroup>();
  some->origin = all.origin;
  for (std::size_t i = 0; i < all.rules.size(); ++i) {
    if ((omitted >> i & 1) == 0) some->add(all.rules[i], all.names[i]);
  }
  made = std::move(some);
  return *made;
}

policy::Ends unscheduled_changes(const policy::PolicySet& policies, const Rules& rules) {
  policy::Ends ends = policy::end_times_of(policies);
  ends.insert(ends.end(), rules.growth_times.begin(), rules.growth_times.end());
  return ends;
}

Rules no_rules(std::uint64_t edition) {
  Rules rules;
  rules.edition = edition;
  return rules;
}

std::shared_ptr<const Rules> compile(const policy::PolicySet& policies, const Rules& old,
                                     const CompileTarget& target, Instant now,
                                     StringPool& strings) {
  auto rules = std::make_shared<Rules>();
  rules->generation = old.generation + 1;
  rules->edition = old.edition + 1;
  const FleetPosition fleet_position = old.fleet_position;
  Compiler compiler(target, now, strings, fleet_position, old,
                    static_cast<core::EpochNumber>(rules->edition));
  for (const auto& [name, written] : policies) {
    CompiledPolicy policy = compiler.compile_policy(name, written);
    rules->policies.emplace(policy.name, std::move(policy));
  }
  rules->removed = removed_policies(old, *rules);
  rules->slower = compiler.slower();
  set_summary(*rules, old, policies, fleet_position, now);
  return rules;
}

std::shared_ptr<const Rules> recompile(const policy::PolicySet& policies, const Rules& old,
                                       const CompileTarget& target, Instant now,
                                       StringPool& strings, const FleetPosition& fleet_position) {
  auto rules = std::make_shared<Rules>(old);
  ++rules->edition;
  Compiler compiler(target, now, strings, fleet_position, old,
                    static_cast<core::EpochNumber>(rules->edition));
  for (auto& [name, policy] : rules->policies) {
    const policy::Policy& written = policies.find(name)->second;
    if (written.schedule.empty() && written.orders.empty() && !policy.has_split) continue;
    policy = compiler.recompile_policy(written, *old.find(name));
  }
  rules->slower = compiler.slower();
  set_summary(*rules, old, policies, fleet_position, now);
  return rules;
}

}  // namespace weir::engine
