#include "engine/rules.h"

#include <fmt/format.h>

#include <unordered_map>

#include "policy/identity.h"

namespace weir::engine {

namespace {

std::string_view keep(Names& names, std::string text) {
  return *names.insert(std::move(text)).first;
}

using ByIdentity = std::unordered_map<std::uint64_t, const core::Limit*>;

ByIdentity limits_of(const Rules* rules) {
  ByIdentity limits;
  if (rules == nullptr) return limits;
  for (const auto& [name, policy] : rules->policies) {
    for (const Rule& rule : policy.rules) limits.emplace(rule.identity, &rule.limit);
  }
  return limits;
}

Rule compile(const policy::Limit& limit, std::size_t position, std::uint64_t identity,
             std::uint64_t seed, Names& names) {
  Rule rule{.limit = limit.rule,
            .name = keep(names, limit.name.empty() ? fmt::format("{}", position) : limit.name),
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

}  // namespace

std::shared_ptr<const Rules> compile(const policy::PolicySet& policies, const Rules* old,
                                     std::uint64_t seed, Instant now, Names& names) {
  const ByIdentity before = limits_of(old);
  auto rules = std::make_shared<Rules>();
  rules->generation = old != nullptr ? old->generation + 1 : 1;
  for (const auto& [name, written] : policies) {
    Policy policy{.name = keep(names, name), .rules = {}, .when_full = written.when_full};
    const auto identities = policy::identities_of(name, written.limits);
    for (std::size_t i = 0; i < written.limits.size(); ++i) {
      const std::uint64_t identity = store::hash_of(identities[i]).low;
      Rule rule = compile(written.limits[i], i, identity, seed, names);
      if (const auto was = before.find(identity); was != before.end()) {
        rule.limit = core::succeeding(std::move(rule.limit), *was->second, now);
      }
      policy.has_concurrency |= std::holds_alternative<core::Concurrency>(rule.limit);
      policy.rules.push_back(std::move(rule));
    }
    rules->policies.emplace(policy.name, std::move(policy));
  }
  return rules;
}

}  // namespace weir::engine
