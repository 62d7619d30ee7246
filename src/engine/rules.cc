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

  // Of those for whom an override is written: what most of them had.
  Before of_those(const policy::Pattern& pattern) const {
    Before before = *this;
    if (old == nullptr || old->overrides == nullptr) return before;
    const auto position = old->overrides->index.covering(pattern);
    if (position) before.add(old->overrides->rules[*position]);
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
                .usual = usual(name, written, before),
                .when_full = written.when_full};
    if (!written.overrides.empty()) made.overrides = overrides(name, written, before);
    return made;
  }

  Together usual(std::string_view name, const policy::Policy& written, const Before& before) {
    return together(name, policy::usual_limits(written, now_), before);
  }

 private:
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

  std::shared_ptr<const Overrides> overrides(std::string_view name, const policy::Policy& written,
                                             const Before& before) {
    auto made = std::make_shared<Overrides>();
    made->index = policy::PatternIndex(written.overrides);
    for (const policy::Override& own : written.overrides) {
      made->rules.push_back(together(name, own.limits, before.of_those(own.pattern)));
    }
    return made;
  }

  std::uint64_t seed_;
  Instant now_;
  Names& names_;
};

}  // namespace

std::shared_ptr<const Rules> compile(const policy::PolicySet& policies, const Rules* old,
                                     std::uint64_t seed, Instant now, Names& names) {
  auto rules = std::make_shared<Rules>();
  if (old != nullptr) {
    rules->generation = old->generation + 1;
    rules->edition = old->edition + 1;
  }
  rules->span = policy::steady_span(policy::schedules_of(policies), now);
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
  rules->span = policy::steady_span(policy::schedules_of(policies), now);
  Compiler compiler(seed, now, names);
  for (auto& [name, policy] : rules->policies) {
    const policy::Policy& written = policies.find(name)->second;
    if (written.schedule.empty()) continue;
    policy.usual = compiler.usual(name, written, Before::of(old.find(name)));
  }
  return rules;
}

}  // namespace weir::engine
