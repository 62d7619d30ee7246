#include "engine/rules.h"

#include <set>
#include <tuple>
#include <type_traits>
#include <unordered_map>

#include "base/saturating.h"
#include "engine/known_prices.h"
#include "policy/identity.h"
#include "policy/key.h"
#include "store/fit.h"
#include "store/key_name.h"

namespace weir::engine {

namespace {

std::string_view keep(Names& names, std::string text) {
  return *names.insert(std::move(text)).first;
}

using ByIdentity = std::unordered_map<std::uint64_t, const Rule*>;

// What limits were before, where they go on.
struct Before {
  const Policy* old = nullptr;
  ByIdentity limits{};

  void add(const Together& together) {
    for (const Rule& rule : together.rules) limits.insert_or_assign(rule.identity, &rule);
  }

  static Before of(const Policy* old) {
    Before before{.old = old};
    if (old != nullptr) before.add(old->usual);
    return before;
  }

  // Of those whom a pattern is for: what most of them had.
  Before of_those(const policy::Pattern& pattern) const {
    Before before = *this;
    if (old != nullptr) before.add(old->limits_for(pattern));
    return before;
  }
};

Rule compile(const policy::Limit& limit, std::uint64_t identity, const Place& place) {
  Rule rule{.limit = limit.rule,
            .by = limit.by,
            .cost = limit.cost,
            .shadow = limit.shadow,
            .identity = identity};
  rule.has_record = std::holds_alternative<core::ExactLog>(limit.rule) ||
                    std::holds_alternative<core::Concurrency>(limit.rule);
  rule.patience = core::is_queue(limit.rule) ? kForever : Nanos{0};
  rule.sharing =
      store::fingerprint(place.seed, identity, store::KeyKind::sharing, {}, rule.has_record);
  rule.shared = policy::is_shared(limit, place.sharing);
  rule.leased =
      rule.shared && limit.scope == policy::Scope::leased && !store::unfit_for_loans(limit.rule);
  return rule;
}

// The limit of a node that has this share of it.
core::Limit limit_of(const Split& split, const Rule* was, Instant now) {
  const Permits part = split.share.part;
  // (It is asked by nobody, but what was used is still known by what it was.)
  if (part == 0) return was != nullptr ? was->limit : split.whole;
  core::Limit limit = core::part_of(split.whole, part);
  return split.share.starts_empty ? core::starting_empty(limit, now) : limit;
}

// When a rule changes by itself.
void append_changes(const Together& limits, Instant now, policy::Ends& ends) {
  for (const Rule& rule : limits.rules) {
    if (rule.split == nullptr) continue;
    if (rule.split->share.waits()) ends.push_back(rule.split->share.grows_at);
    const auto* bucket = std::get_if<core::Bucket>(&rule.limit);
    if (bucket != nullptr && bucket->full_at > now) ends.push_back(bucket->full_at);
  }
}

void append_changes(const Policy& policy, Instant now, policy::Ends& ends) {
  append_changes(policy.usual, now, ends);
  for (const Overrides* some : {policy.overrides.get(), policy.boosts.get()}) {
    if (some == nullptr) continue;
    for (const Together& own : some->limits) append_changes(own, now, ends);
  }
}

bool has_split(const Policy& policy) {
  bool splits = policy.usual.splits;
  for (const Overrides* some : {policy.overrides.get(), policy.boosts.get()}) {
    if (some == nullptr) continue;
    for (const Together& own : some->limits) splits = splits || own.splits;
  }
  return splits;
}

LimitOrigin origin_of(const policy::Override& own) {
  return {.kind = LimitOrigin::Kind::override_of_key, .text = own.pattern.written()};
}

// Of the limits of those that have no override.
LimitOrigin usual_origin(const policy::Policy& written, Instant now) {
  if (written.schedule.empty()) return {};
  const auto shift = policy::held_at(written.schedule, now).shift;
  if (!shift) return {};
  return {.kind = LimitOrigin::Kind::schedule,
          .text = policy::to_text(written.schedule[*shift].hours)};
}

// When a key has forgotten so many permits that it used at `now`.
Instant rest_of(const core::Limit& limit, Permits used, Instant now) {
  const auto rest = [&](const auto& l) -> Instant {
    using L = std::remove_cvref_t<decltype(l)>;
    if constexpr (core::kHasState<L>) {
      return core::rest_at(l, core::debit(l, {}, now, used), now);
    } else if constexpr (std::is_same_v<L, core::ExactLog>) {
      return later(in_range(now), l.period);
    } else {
      return {};  // a lease ends when it was said to
    }
  };
  return std::visit(rest, limit);
}

const Rule* find_rule(const Together& together, std::uint64_t identity) {
  const auto found = std::ranges::find(together.rules, identity, &Rule::identity);
  return found != together.rules.end() ? &*found : nullptr;
}

LimitPrices prices_of(const Together& together) {
  LimitPrices prices;
  for (const Rule& rule : together.rules) {
    const auto* bucket = std::get_if<core::Bucket>(&rule.limit);
    if (bucket == nullptr) continue;
    prices.push_back(LimitPrice::of(rule.identity, *bucket));
    prices.back().still = rule.is_closed();
  }
  return prices;
}

std::shared_ptr<const PriceLayer> prices_of(const Overrides* layer) {
  if (layer == nullptr) return nullptr;
  auto prices = std::make_shared<PriceLayer>();
  prices->index = layer->index;
  prices->patterns = layer->patterns;
  prices->boosted = layer->boosted;
  for (const Together& own : layer->limits) prices->limits.push_back(prices_of(own));
  return prices;
}

// The prices of `made`. A layer that it shares with `old`, whose prices are those of `last`, has
// them already; there may be very many keys in it.
PriceGroups prices_of(const Policy& made, const Policy* old, const PolicyEpoch* last) {
  const bool shares = old != nullptr && made.overrides == old->overrides;
  return {.usual = prices_of(made.usual),
          .boosts = prices_of(made.boosts.get()),
          .overrides = shares ? last->prices.overrides : prices_of(made.overrides.get())};
}

void set_stamps(Together& together, const LimitPrices& prices) {
  for (Rule& rule : together.rules) {
    auto* bucket = std::get_if<core::Bucket>(&rule.limit);
    if (bucket != nullptr) bucket->stamp = find_price(prices, rule.identity)->stamp;
  }
}

std::shared_ptr<const Overrides> with_stamps(const std::shared_ptr<const Overrides>& layer,
                                             const PriceLayer* prices) {
  if (layer == nullptr) return layer;
  auto next = std::make_shared<Overrides>(*layer);
  for (std::size_t i = 0; i < next->limits.size(); ++i) {
    set_stamps(next->limits[i], prices->limits[i]);
  }
  return next;
}

// The last of `epochs` goes on: prices are the same.
void continue_epoch(Policy& made, const Policy* old, std::shared_ptr<const PolicyEpochs> epochs) {
  const PriceGroups& prices = epochs->back()->prices;
  set_stamps(made.usual, prices.usual);
  made.boosts = with_stamps(made.boosts, prices.boosts.get());
  const bool shares = old != nullptr && made.overrides == old->overrides;
  if (!shares) made.overrides = with_stamps(made.overrides, prices.overrides.get());
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

// When usage that counts until `then` under `old` is forgotten if `next` takes its place at `now`:
// permits that are owed to a bucket drain at its new price.
Instant forgotten_under(const core::Limit& next, const core::Limit& old, Instant then,
                        Instant now) {
  const auto* from = std::get_if<core::Bucket>(&old);
  const auto* to = std::get_if<core::Bucket>(&next);
  if (from == nullptr || to == nullptr || then <= now) return then;
  core::Bucket owing = *from;
  owing.full_at = then;
  return core::inheriting_start(*to, owing, now).full_at;
}

// Turns what was written into rules, at one time and for one table.
class Compiler {
 public:
  // `old` are the rules before, and `standing` is where the node stands now.
  Compiler(const Place& place, Instant now, Names& names, const Standing& standing,
           const Rules& old, core::EpochNumber epoch)
      : place_(place),
        now_(now),
        names_(names),
        standing_(standing),
        old_(old),
        epoch_(epoch),
        slower_(old.slower.at(now)) {
    // Parts are given once. From then on others may have used what this node had not.
    standing_.founding = standing.founding && !gives_parts(old.standing);
  }

  Policy compiled(const std::string& name, const policy::Policy& written) {
    const Policy* old = old_.find(name);
    const Before before = Before::of(old);
    Policy made;
    made.name = keep(names_, name);
    made.when_full = written.when_full;
    made.on_store_failure = written.on_store_failure;
    made.head = store::key_head(name);
    made.registry = place_.registry;
    made.orders = policy::for_all(written.orders, now_);
    if (!written.overrides.empty()) made.overrides = rules_of(made, written.overrides, before);
    follow_time(made, written, before);
    if (old != nullptr) note_slower_limits(made, *old);
    set_epochs(made, old, old != nullptr ? old->epochs : epochs_of_gone(name));
    return made;
  }

  // The same policy at another time.
  Policy at_other_hours(const policy::Policy& written, const Policy& old) {
    const Before before = Before::of(&old);
    Policy made = old;
    made.orders = policy::for_all(written.orders, now_);
    // (There may be very many of them. Keys that have only been boosted for a while must not be
    // taken for such that have not.)
    const bool had_boosts = old.boosts != nullptr || has_boosts(written);
    if (old.overrides != nullptr && (made.orders != old.orders || old.splits || had_boosts)) {
      made.overrides = rules_of(made, written.overrides, before);
    }
    follow_time(made, written, before);
    note_slower_limits(made, old);
    set_epochs(made, &old, old.epochs);
    return made;
  }

  // What all that were made have become slower than.
  store::SlowerLimits slower() { return std::move(slower_); }

 private:
  std::shared_ptr<const PolicyEpochs> epochs_of_gone(std::string_view name) const {
    const auto gone = old_.gone.find(name);
    return gone != old_.gone.end() ? gone->second : nullptr;
  }

  // Begins an epoch if the prices are others than those of the last of `epochs`. `old` is the
  // policy before, unless that had left.
  void set_epochs(Policy& made, const Policy* old, std::shared_ptr<const PolicyEpochs> epochs) {
    const PolicyEpoch* const last = epochs != nullptr ? epochs->back().get() : nullptr;
    PriceGroups prices = prices_of(made, old, last);
    if (last != nullptr && same_prices(prices, last->prices)) {
      continue_epoch(made, old, std::move(epochs));
    } else {
      PolicyEpoch next{.number = epoch_, .since = now_, .prices = std::move(prices)};
      next.extent = Extent::of(next.prices);
      made.epochs =
          std::make_shared<const PolicyEpochs>(followed_by(epochs.get(), std::move(next)));
      note_rises(*made.epochs, slower_);
    }
    made.has_changed = made.epochs->size() > 1;
  }

  // Keys go from each group of `old` to the one that is for them now, and come to each new one from
  // the one that was.
  void note_slower_limits(const Policy& made, const Policy& old) {
    made.for_each([&](const policy::Pattern* pattern, const Together& next) {
      note_slower_limits(next, pattern != nullptr ? old.limits_for(*pattern) : old.usual);
    });
    old.for_each([&](const policy::Pattern* pattern, const Together& was) {
      if (pattern != nullptr) note_slower_limits(made.limits_for(*pattern), was);
    });
  }

  void note_slower_limits(const Together& next, const Together& was) {
    for (const Rule& rule : next.rules) {
      const Rule* before = find_rule(was, rule.identity);
      if (before == nullptr || before->limit.index() != rule.limit.index()) continue;
      if (!std::holds_alternative<core::Bucket>(rule.limit)) note_slower(rule.limit, before->limit);
    }
  }

  // Of limits that are no buckets.
  void note_slower(const core::Limit& next, const core::Limit& old) {
    const Permits used = core::capacity(old);
    const Instant before = rest_of(old, used, now_);
    const Instant after = rest_of(next, used, now_);
    if (after <= before || !noted_.emplace(next.index(), before, after).second) return;
    slower_.add(store::SlowerLimits::Other{.limit = next, .since = now_, .until = before});
  }

  // What may be another thing an hour later.
  void follow_time(Policy& made, const policy::Policy& written, const Before& before) {
    const std::vector<policy::Limit>& usual = policy::usual_limits(written, now_);
    KnownPrices known;
    if (!written.schedule.empty() || !made.orders.changes.empty()) {
      known.add(made.name, made.orders, written);
    }
    made.usual = together(made.name, policy::under(made.orders, usual), before, known);
    made.usual.origin = usual_origin(written, now_);
    made.boosts = boosts(made, written, before);
    made.blocks = blocks(written.orders);
    made.splits = has_split(made);
  }

  Together together(std::string_view name, const std::vector<policy::Limit>& limits,
                    const Before& before, const KnownPrices& known) {
    Together together;
    const auto identities = policy::identities_of(name, limits);
    const auto readable = policy::readable_identities_of(limits);
    for (std::size_t i = 0; i < limits.size(); ++i) {
      const std::uint64_t identity = store::hash_of(identities[i]).low;
      Rule rule = compile(limits[i], identity, place_);
      if (rule.shared) {
        rule.tail = store::key_tail(readable[i]);
      } else {
        const auto found = before.limits.find(identity);
        const Rule* was = found != before.limits.end() ? found->second : nullptr;
        if (policy::is_split(limits[i], place_.sharing)) {
          rule.split = std::make_shared<Split>(split_of(limits[i].rule, was));
          rule.limit = limit_of(*rule.split, was, now_);
        }
        if (was != nullptr) rule.limit = inheriting_start(rule.limit, was->limit, now_);
      }
      if (auto* bucket = std::get_if<core::Bucket>(&rule.limit)) {
        *bucket = core::in_epoch(*bucket, epoch_);
        bucket->known_rise = known.highest_rise(identity, *bucket);
        if (place_.registry != nullptr) place_.registry->add(*bucket);
      }
      const std::string& own = limits[i].name;
      together.add(std::move(rule), keep(names_, own.empty() ? std::to_string(i) : own));
    }
    return together;
  }

  // A limit that a member has not had until now begins with nothing, whether it is new, returns, or
  // was of another scope: other nodes may have had it for longer, and may have used what is now
  // this node's part. So does a node that becomes a member, whatever it has used on its own until
  // then, unless the fleet begins with it.
  Split split_of(const core::Limit& whole, const Rule* was) const {
    const bool goes_on = was != nullptr && was->split != nullptr;
    if (!goes_on && !standing_.is_known()) return {whole, first_share(whole, standing_)};
    const bool was_member = old_.standing.is_known();
    const bool begins = !goes_on || (standing_.is_known() && !was_member);
    Standing standing = standing_;
    if (!goes_on) standing.founding = false;
    if (begins) return {whole, next_share({.whole = core::capacity(whole)}, whole, standing, now_)};
    Share share = was->split->share;
    if (share.waits()) {
      share.grows_at = forgotten_under(whole, was->split->whole, share.grows_at, now_);
    }
    return {whole, next_share(share, whole, standing, now_)};
  }

  std::shared_ptr<Overrides> rules_of(const Policy& policy,
                                      const std::vector<policy::Override>& overrides,
                                      const Before& before) {
    std::vector<KnownPrices> known(overrides.size());
    if (!policy.orders.changes.empty()) {
      for (std::size_t i = 0; i < overrides.size(); ++i) {
        known[i].add(policy.name, policy.orders, overrides[i].limits);
      }
    }
    return rules_of(policy, overrides, before, known);
  }

  std::shared_ptr<Overrides> rules_of(const Policy& policy,
                                      const std::vector<policy::Override>& overrides,
                                      const Before& before, const std::vector<KnownPrices>& known) {
    auto made = std::make_shared<Overrides>();
    made->index = policy::PatternIndex(overrides);
    for (std::size_t i = 0; i < overrides.size(); ++i) {
      const policy::Override& own = overrides[i];
      made->patterns.push_back(own.pattern);
      made->limits.push_back(together(policy.name, policy::under(policy.orders, own.limits),
                                      before.of_those(own.pattern), known[i]));
      made->limits.back().origin = origin_of(own);
    }
    return made;
  }

  // A boost is an override: of the limits that its keys have otherwise.
  std::shared_ptr<const Overrides> boosts(const Policy& policy, const policy::Policy& written,
                                          const Before& before) {
    const policy::PatternIndex none;
    const auto boosted =
        policy::boosted(written.orders, written.overrides,
                        policy.overrides != nullptr ? policy.overrides->index : none, now_);
    if (boosted.empty()) return nullptr;
    std::vector<policy::Override> overrides;
    std::vector<KnownPrices> known(boosted.size());  // when the boosts have ended
    for (std::size_t i = 0; i < boosted.size(); ++i) {
      const policy::Boosted& each = boosted[i];
      const std::vector<policy::Limit>& limits =
          each.own ? written.overrides[*each.own].limits : policy::usual_limits(written, now_);
      overrides.push_back({each.pattern, policy::under(each.by.change, limits)});
      if (each.own) {
        known[i].add(policy.name, policy.orders, limits);
      } else {
        known[i].add(policy.name, policy.orders, written);
      }
    }
    auto made = rules_of(policy, overrides, before, known);
    for (std::size_t i = 0; i < boosted.size(); ++i) {
      const auto own = boosted[i].own;
      made->limits[i].origin =
          own ? origin_of(written.overrides[*own]) : usual_origin(written, now_);
      made->boosted.push_back(own.value_or(Overrides::kUsual));
    }
    return made;
  }

  std::shared_ptr<const Blocks> blocks(const std::vector<policy::Order>& orders) const {
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

  const Place place_;
  Instant now_;
  Names& names_;
  Standing standing_;
  const Rules& old_;
  core::EpochNumber epoch_;
  std::set<std::tuple<std::size_t, Instant, Instant>> noted_;
  store::SlowerLimits slower_;
};

// The policies that have left before `next`, or leave with it, if they have buckets: what was used
// under other limits can be told from the states alone.
std::map<std::string_view, std::shared_ptr<const PolicyEpochs>, std::less<>> gone_with(
    const Rules& old, const Rules& next) {
  constexpr std::size_t most = 1024;
  auto gone = old.gone;
  for (const auto& [name, policy] : next.policies) gone.erase(name);
  for (const auto& [name, policy] : old.policies) {
    const bool matters = policy.epochs->back()->extent.capacity > 0;
    if (next.find(name) == nullptr && matters && gone.size() < most) {
      gone.emplace(name, policy.epochs);
    }
  }
  return gone;
}

bool leases(const Policy& policy) {
  bool some = false;
  policy.for_each([&](const policy::Pattern*, const Together& limits) { some |= limits.leases; });
  return some;
}

// Other policies may change, and parts of split limits often do: what was borrowed stays of use.
std::uint64_t leased_edition(const Rules& old, const Rules& next) {
  for (const auto& [name, policy] : old.policies) {
    if (!leases(policy)) continue;
    const Policy* const now = next.find(name);
    if (now == nullptr || now->epochs != policy.epochs) return next.edition;
  }
  return old.leased_edition;
}

// What follows from all of the policies.
void conclude(Rules& rules, const Rules& old, const policy::PolicySet& policies,
              const Standing& standing, Instant now) {
  rules.leased_edition = leased_edition(old, rules);
  rules.since = now;
  rules.standing = standing;
  rules.splits = false;
  rules.grow.clear();
  for (const auto& [name, policy] : rules.policies) {
    if (!policy.splits) continue;
    rules.splits = true;
    append_changes(policy, now, rules.grow);
  }
  rules.span =
      policy::steady_span(policy::schedules_of(policies), now, changes_by_itself(policies, rules));
}

}  // namespace

void Together::add(Rule rule, std::string_view name) {
  shares |= rule.shared;
  leases |= rule.shared && rule.leased;
  asks |= rule.shared && !rule.leased;
  splits |= rule.split != nullptr;
  has_concurrency |= std::holds_alternative<core::Concurrency>(rule.limit);
  rules.push_back(std::move(rule));
  names.push_back(name);
}

const Together& Together::countable(const policy::Subject& subject) const {
  std::uint32_t left_out = 0;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (policy::misses(subject, rules[i].by)) left_out |= std::uint32_t{1} << i;
  }
  return left_out == 0 ? *this : reductions.without(*this, left_out);
}

Reductions::Reductions() = default;
Reductions::~Reductions() = default;
Reductions::Reductions(const Reductions&) {}
Reductions& Reductions::operator=(const Reductions&) {
  const std::lock_guard lock(mutex_);
  made_.clear();
  return *this;
}

const Together& Reductions::without(const Together& all, std::uint32_t left_out) const {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<const Together>& made = made_[left_out];
  if (made != nullptr) return *made;
  auto some = std::make_unique<Together>();
  some->origin = all.origin;
  for (std::size_t i = 0; i < all.rules.size(); ++i) {
    if ((left_out >> i & 1) == 0) some->add(all.rules[i], all.names[i]);
  }
  made = std::move(some);
  return *made;
}

policy::Ends changes_by_itself(const policy::PolicySet& policies, const Rules& rules) {
  policy::Ends ends = policy::ends_of(policies);
  ends.insert(ends.end(), rules.grow.begin(), rules.grow.end());
  return ends;
}

Rules no_rules(std::uint64_t edition) {
  Rules rules;
  rules.edition = edition;
  return rules;
}

std::shared_ptr<const Rules> compile(const policy::PolicySet& policies, const Rules& old,
                                     const Place& place, Instant now, Names& names) {
  auto rules = std::make_shared<Rules>();
  rules->generation = old.generation + 1;
  rules->edition = old.edition + 1;
  const Standing standing = old.standing;
  Compiler compiler(place, now, names, standing, old,
                    static_cast<core::EpochNumber>(rules->edition));
  for (const auto& [name, written] : policies) {
    Policy policy = compiler.compiled(name, written);
    rules->policies.emplace(policy.name, std::move(policy));
  }
  rules->gone = gone_with(old, *rules);
  rules->slower = compiler.slower();
  conclude(*rules, old, policies, standing, now);
  return rules;
}

std::shared_ptr<const Rules> at_other_hours(const policy::PolicySet& policies, const Rules& old,
                                            const Place& place, Instant now, Names& names,
                                            const Standing& standing) {
  auto rules = std::make_shared<Rules>(old);
  ++rules->edition;
  Compiler compiler(place, now, names, standing, old,
                    static_cast<core::EpochNumber>(rules->edition));
  for (auto& [name, policy] : rules->policies) {
    const policy::Policy& written = policies.find(name)->second;
    if (written.schedule.empty() && written.orders.empty() && !policy.splits) continue;
    policy = compiler.at_other_hours(written, *old.find(name));
  }
  rules->slower = compiler.slower();
  conclude(*rules, old, policies, standing, now);
  return rules;
}

}  // namespace weir::engine
