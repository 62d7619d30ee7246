#include "engine/rules.h"

#include <tuple>
#include <type_traits>
#include <unordered_map>

#include "base/saturating.h"
#include "policy/identity.h"
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
    if (old == nullptr) return before;
    for (const Overrides* some : {old->overrides.get(), old->boosts.get()}) {
      if (some == nullptr) continue;
      const auto position = some->index.covering(pattern);
      if (position) before.add(some->rules[*position]);
    }
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
    for (const Together& own : some->rules) append_changes(own, now, ends);
  }
}

bool has_split(const Policy& policy) {
  bool splits = policy.usual.splits;
  for (const Overrides* some : {policy.overrides.get(), policy.boosts.get()}) {
    if (some == nullptr) continue;
    for (const Together& own : some->rules) splits = splits || own.splits;
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

// Those that a bucket has had.
std::vector<std::uint64_t> prices_of(const core::Limit& limit) {
  std::vector<std::uint64_t> prices;
  const auto* bucket = std::get_if<core::Bucket>(&limit);
  for (; bucket != nullptr; bucket = bucket->earlier.get()) prices.push_back(bucket->price);
  return prices;
}

// Turns what was written into rules, at one time and for one table.
class Compiler {
 public:
  Compiler(const Place& place, Instant now, Names& names, const Standing& standing,
           const Standing& before)
      : place_(place), now_(now), names_(names), standing_(standing), before_(before) {}

  Policy compiled(const std::string& name, const policy::Policy& written, const Policy* old) {
    const Before before = Before::of(old);
    Policy made{.name = keep(names_, name),
                .usual = {},
                .when_full = written.when_full,
                .on_store_failure = written.on_store_failure,
                .head = store::key_head(name),
                .orders = policy::for_all(written.orders, now_)};
    if (!written.overrides.empty()) made.overrides = rules_of(made, written.overrides, before);
    follow_time(made, written, before);
    return made;
  }

  // The same policy at another time.
  Policy at_other_hours(const policy::Policy& written, const Policy& old) {
    const Before before = Before::of(&old);
    Policy made = old;
    made.orders = policy::for_all(written.orders, now_);
    // (There may be very many of them.)
    if (old.overrides != nullptr && (made.orders != old.orders || old.splits)) {
      made.overrides = rules_of(made, written.overrides, before);
    }
    follow_time(made, written, before);
    return made;
  }

  // Of all that were made.
  Slower slower() { return std::move(slower_); }

 private:
  // Very many keys may have limits of their own. Most change in the same way, and if they do not,
  // few are told apart: each is looked at for every key there is.
  void note_if_slower(const core::Limit& next, const core::Limit& old) {
    constexpr std::size_t few = 64;
    if (next.index() != old.index()) return;
    const Permits used = core::capacity(old);
    const Instant before = rest_of(old, used, now_);
    const Instant after = rest_of(next, used, now_);
    if (after <= before || !noted_.emplace(next.index(), before, after, prices_of(next)).second) {
      return;
    }
    if (slower_.limits.size() < few) {
      slower_.limits.push_back(next);
    } else {
      slower_.others_until = std::max(slower_.others_until, after);
    }
  }

  // What may be another thing an hour later.
  void follow_time(Policy& made, const policy::Policy& written, const Before& before) {
    const std::vector<policy::Limit>& usual = policy::usual_limits(written, now_);
    made.usual = together(made.name, policy::under(made.orders, usual), before);
    made.usual.origin = usual_origin(written, now_);
    made.boosts = boosts(made, written, before);
    made.blocks = blocks(written.orders);
    made.splits = has_split(made);
  }

  Together together(std::string_view name, const std::vector<policy::Limit>& limits,
                    const Before& before) {
    Together together;
    const auto identities = policy::identities_of(name, limits);
    const auto readable = policy::readable_identities_of(limits);
    for (std::size_t i = 0; i < limits.size(); ++i) {
      const std::uint64_t identity = store::hash_of(identities[i]).low;
      Rule rule = compile(limits[i], identity, place_);
      if (rule.shared) {
        // (When it changed is for the fleet to say, which has no memory of that: what is owed there
        // is reckoned anew by who finds it.)
        rule.tail = store::key_tail(readable[i]);
        together.shares = true;
        (rule.leased ? together.leases : together.asks) = true;
      } else {
        const auto found = before.limits.find(identity);
        const Rule* was = found != before.limits.end() ? found->second : nullptr;
        if (policy::is_split(limits[i], place_.sharing)) {
          rule.split = std::make_shared<Split>(split_of(limits[i].rule, was));
          rule.limit = limit_of(*rule.split, was, now_);
          together.splits = true;
        }
        if (was != nullptr) {
          rule.limit = core::succeeding(rule.limit, was->limit, now_);
          note_if_slower(rule.limit, was->limit);
        }
      }
      together.has_concurrency |= std::holds_alternative<core::Concurrency>(rule.limit);
      together.rules.push_back(std::move(rule));
      const std::string& own = limits[i].name;
      together.names.push_back(keep(names_, own.empty() ? std::to_string(i) : own));
    }
    return together;
  }

  // (A node that becomes a member begins with nothing, whatever it has used on its own until then.)
  Split split_of(const core::Limit& whole, const Rule* was) const {
    if (was == nullptr || was->split == nullptr) return {whole, first_share(whole, standing_)};
    Share share = was->split->share;
    if (standing_.is_known() && !before_.is_known()) share = {.whole = share.whole};
    return {whole, next_share(share, whole, standing_, now_)};
  }

  std::shared_ptr<Overrides> rules_of(const Policy& policy,
                                      const std::vector<policy::Override>& overrides,
                                      const Before& before) {
    auto made = std::make_shared<Overrides>();
    made->index = policy::PatternIndex(overrides);
    for (const policy::Override& own : overrides) {
      made->rules.push_back(together(policy.name, policy::under(policy.orders, own.limits),
                                     before.of_those(own.pattern)));
      made->rules.back().origin = origin_of(own);
    }
    return made;
  }

  // A boost is an override: of the limits that its keys have otherwise. One that has ended still is
  // one, of the same limits: those remember what its keys owe from when they had more.
  std::shared_ptr<const Overrides> boosts(const Policy& policy, const policy::Policy& written,
                                          const Before& before) {
    std::vector<policy::Override> overrides;
    std::vector<LimitOrigin> origins;
    for (const policy::Order& order : written.orders) {
      if (order.verb != policy::Order::Verb::boost || order.who.empty()) continue;
      policy::Pattern pattern = policy::Pattern::of(order.who);
      const auto own =
          policy.overrides == nullptr ? std::nullopt : policy.overrides->index.covering(pattern);
      const std::vector<policy::Limit>& limits =
          own ? written.overrides[*own].limits : policy::usual_limits(written, now_);
      const bool ended = order.until <= now_;
      overrides.push_back(
          {std::move(pattern), ended ? limits : policy::under(order.change, limits)});
      origins.push_back(own ? origin_of(written.overrides[*own]) : usual_origin(written, now_));
    }
    if (overrides.empty()) return nullptr;
    auto made = rules_of(policy, overrides, before);
    for (std::size_t i = 0; i < origins.size(); ++i) {
      made->rules[i].origin = std::move(origins[i]);
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
  const Standing& standing_;
  const Standing& before_;
  std::set<std::tuple<std::size_t, Instant, Instant, std::vector<std::uint64_t>>> noted_;
  Slower slower_;
};

// What follows from all of the policies.
void conclude(Rules& rules, const policy::PolicySet& policies, const Standing& standing,
              Instant now) {
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

policy::Ends changes_by_itself(const policy::PolicySet& policies, const Rules& rules) {
  policy::Ends ends = policy::ends_of(policies);
  ends.insert(ends.end(), rules.grow.begin(), rules.grow.end());
  return ends;
}

std::shared_ptr<const Rules> compile(const policy::PolicySet& policies, const Rules* old,
                                     const Place& place, Instant now, Names& names) {
  auto rules = std::make_shared<Rules>();
  if (old != nullptr) {
    rules->generation = old->generation + 1;
    rules->edition = old->edition + 1;
  }
  const Standing standing = old != nullptr ? old->standing : Standing{};
  Compiler compiler(place, now, names, standing, standing);
  for (const auto& [name, written] : policies) {
    Policy policy = compiler.compiled(name, written, old != nullptr ? old->find(name) : nullptr);
    rules->policies.emplace(policy.name, std::move(policy));
  }
  rules->slower = compiler.slower();
  conclude(*rules, policies, standing, now);
  return rules;
}

std::shared_ptr<const Rules> at_other_hours(const policy::PolicySet& policies, const Rules& old,
                                            const Place& place, Instant now, Names& names,
                                            const Standing& standing) {
  auto rules = std::make_shared<Rules>(old);
  ++rules->edition;
  Compiler compiler(place, now, names, standing, old.standing);
  for (auto& [name, policy] : rules->policies) {
    const policy::Policy& written = policies.find(name)->second;
    if (written.schedule.empty() && written.orders.empty() && !policy.splits) continue;
    policy = compiler.at_other_hours(written, *old.find(name));
  }
  rules->slower = compiler.slower();
  conclude(*rules, policies, standing, now);
  return rules;
}

}  // namespace weir::engine
