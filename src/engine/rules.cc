#include "engine/rules.h"

#include <unordered_map>

#include "policy/identity.h"

namespace weir::engine {

namespace {

std::string_view keep(Names& names, std::string text) {
  return *names.insert(std::move(text)).first;
}

using ByIdentity = std::unordered_map<std::uint64_t, const core::Limit*>;

// What limits were before, where they go on.
struct Before {
  const Policy* old = nullptr;
  ByIdentity limits{};

  void add(const Together& together) {
    for (const Rule& rule : together.rules) limits.insert_or_assign(rule.identity, &rule.limit);
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

Rule compile(const policy::Limit& limit, std::uint64_t identity, std::uint64_t seed) {
  Rule rule{.limit = limit.rule,
            .by = limit.by,
            .cost = limit.cost,
            .shadow = limit.shadow,
            .identity = identity};
  rule.has_record = std::holds_alternative<core::ExactLog>(limit.rule) ||
                    std::holds_alternative<core::Concurrency>(limit.rule);
  rule.patience = core::is_queue(limit.rule) ? kForever : Nanos{0};
  rule.sharing = store::fingerprint(seed, identity, store::KeyKind::sharing, {}, rule.has_record);
  return rule;
}

// Turns what was written into rules, at one time and for one table.
class Compiler {
 public:
  Compiler(std::uint64_t seed, Instant now, Names& names) : seed_(seed), now_(now), names_(names) {}

  Policy compiled(const std::string& name, const policy::Policy& written, const Policy* old) {
    const Before before = Before::of(old);
    Policy made{.name = keep(names_, name),
                .usual = {},
                .when_full = written.when_full,
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
    if (old.overrides != nullptr && made.orders != old.orders) {
      made.overrides = rules_of(made, written.overrides, before);
    }
    follow_time(made, written, before);
    return made;
  }

 private:
  // What may be another thing an hour later.
  void follow_time(Policy& made, const policy::Policy& written, const Before& before) {
    const std::vector<policy::Limit>& usual = policy::usual_limits(written, now_);
    made.usual = together(made.name, policy::under(made.orders, usual), before);
    made.boosts = boosts(made, written, before);
    made.blocks = blocks(written.orders);
  }

  Together together(std::string_view name, const std::vector<policy::Limit>& limits,
                    const Before& before) {
    Together together;
    const auto identities = policy::identities_of(name, limits);
    for (std::size_t i = 0; i < limits.size(); ++i) {
      const std::uint64_t identity = store::hash_of(identities[i]).low;
      Rule rule = compile(limits[i], identity, seed_);
      if (const auto was = before.limits.find(identity); was != before.limits.end()) {
        rule.limit = core::succeeding(std::move(rule.limit), *was->second, now_);
      }
      together.has_concurrency |= std::holds_alternative<core::Concurrency>(rule.limit);
      together.rules.push_back(std::move(rule));
      const std::string& own = limits[i].name;
      together.names.push_back(keep(names_, own.empty() ? std::to_string(i) : own));
    }
    return together;
  }

  std::shared_ptr<const Overrides> rules_of(const Policy& policy,
                                            const std::vector<policy::Override>& overrides,
                                            const Before& before) {
    auto made = std::make_shared<Overrides>();
    made->index = policy::PatternIndex(overrides);
    for (const policy::Override& own : overrides) {
      made->rules.push_back(together(policy.name, policy::under(policy.orders, own.limits),
                                     before.of_those(own.pattern)));
    }
    return made;
  }

  // A boost is an override: of the limits that its keys have otherwise. One that has ended still is
  // one, of the same limits: those remember what its keys owe from when they had more.
  std::shared_ptr<const Overrides> boosts(const Policy& policy, const policy::Policy& written,
                                          const Before& before) {
    std::vector<policy::Override> overrides;
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
    }
    return overrides.empty() ? nullptr : rules_of(policy, overrides, before);
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

  std::uint64_t seed_;
  Instant now_;
  Names& names_;
};

// Around a time, as long as nothing changes.
core::Span span_at(const policy::PolicySet& policies, Instant now) {
  return policy::steady_span(policy::schedules_of(policies), now, policy::ends_of(policies));
}

}  // namespace

std::shared_ptr<const Rules> compile(const policy::PolicySet& policies, const Rules* old,
                                     std::uint64_t seed, Instant now, Names& names) {
  auto rules = std::make_shared<Rules>();
  if (old != nullptr) {
    rules->generation = old->generation + 1;
    rules->edition = old->edition + 1;
  }
  rules->span = span_at(policies, now);
  Compiler compiler(seed, now, names);
  for (const auto& [name, written] : policies) {
    Policy policy = compiler.compiled(name, written, old != nullptr ? old->find(name) : nullptr);
    rules->policies.emplace(policy.name, std::move(policy));
  }
  return rules;
}

std::shared_ptr<const Rules> at_other_hours(const policy::PolicySet& policies, const Rules& old,
                                            std::uint64_t seed, Instant now, Names& names) {
  auto rules = std::make_shared<Rules>(old);
  ++rules->edition;
  rules->span = span_at(policies, now);
  Compiler compiler(seed, now, names);
  for (auto& [name, policy] : rules->policies) {
    const policy::Policy& written = policies.find(name)->second;
    if (written.schedule.empty() && written.orders.empty()) continue;
    policy = compiler.at_other_hours(written, *old.find(name));
  }
  return rules;
}

}  // namespace weir::engine
