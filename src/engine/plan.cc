#include "engine/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/suggest.h"
#include "policy/key.h"

namespace weir::engine {

namespace {

// Strangers may send any name: neither is a long one repeated, nor is it compared with thousands.
std::string no_such_policy(const Rules& rules, std::string_view name) {
  constexpr std::size_t long_enough = 64;
  constexpr std::size_t many = 100;
  std::vector<std::string_view> names;
  if (rules.policies.size() <= many) {
    for (const auto& [known, policy] : rules.policies) names.push_back(known);
  }
  return fmt::format("there is no policy \"{}{}\"{}", name.substr(0, long_enough),
                     name.size() > long_enough ? "…" : "", did_you_mean(name, names));
}

// Settling corrects the permits that were asked for; a fixed cost was right to begin with.
Permits cost_of(const Rule& rule, const Request& request, Verb verb) {
  if (verb == Verb::settle && !rule.cost.permits) return 0;
  return rule.cost.of(request.permits);
}

store::Item item_for(const Policy& policy, const Rule& rule, const policy::Key& key,
                     const Request& request, Verb verb, std::uint64_t seed) {
  const auto kind = key.of_parts ? store::KeyKind::parts : store::KeyKind::whole;
  return {.limit = &rule.limit,
          .key = store::fingerprint(seed, rule.identity, kind, key.bytes, rule.has_record),
          .sharing = rule.sharing,
          .ask = {.cost = cost_of(rule, request, verb),
                  .max_wait = request.max_wait.value_or(rule.patience)},
          .shadow = rule.shadow,
          .when_full = policy.when_full};
}

}  // namespace

Planned plan(const Rules& rules, const Request& request, Verb verb, std::uint64_t seed,
             Items& items) {
  const Policy* policy = rules.find(request.policy);
  if (policy == nullptr) return {.error = no_such_policy(rules, request.policy)};
  if (request.parts.too_many()) {
    return {.error = fmt::format("a key has at most {} parts", Parts::kMost)};
  }
  const policy::Subject subject{.key = request.key, .parts = request.parts.all()};
  const Together& limits = policy->rules_for(subject);
  if (verb == Verb::take && limits.has_concurrency) {
    return {.error = fmt::format("the policy \"{}\" has a concurrent limit: enter and leave it",
                                 policy->name)};
  }
  thread_local std::string buffer;  // a key of parts needs no memory of its own each time
  for (const Rule& rule : limits.rules) {
    const auto key = policy::key_of(subject, rule.by, buffer);
    if (!key) return {.error = key.error().message};
    items.emplace_back(item_for(*policy, rule, *key, request, verb, seed));
  }
  return {.policy = policy, .limits = &limits, .blocked_until = policy->blocked_until(subject)};
}

Verdict judge(const Together& limits, const core::Verdict& verdict) {
  Verdict answer{.decision = verdict.decision, .refusing = verdict.refusing};
  if (!limits.names.empty()) answer.limited_by = limits.names[verdict.tightest];
  return answer;
}

Verdict blocked(Instant until, Instant now) {
  const Nanos left = std::max(until - now, Nanos{1});
  return {.decision = {.outcome = Outcome::limited, .retry_after = left, .reset_after = left},
          .limited_by = "block",
          .blocked = true};
}

}  // namespace weir::engine
