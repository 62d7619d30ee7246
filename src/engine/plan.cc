#include "engine/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/saturating.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "policy/key.h"
#include "policy/limit_text.h"

namespace weir::engine {

namespace {

// Clients may send any name. A long name is shortened, and suggestions are only computed for a
// small number of policies.
std::string unknown_policy(const Rules& rules, std::string_view name) {
  constexpr std::size_t max_suggestions = 100;
  std::vector<std::string_view> names;
  if (rules.policies.size() <= max_suggestions) {
    for (const auto& [known, policy] : rules.policies) names.push_back(known);
  }
  return fmt::format("there is no policy \"{}\"{}", shortened(name), did_you_mean(name, names));
}

// A settle corrects limits whose cost depends on the permits of the request. A fixed cost is final.
Permits cost_of(const Rule& rule, const Request& request, Operation operation) {
  if (operation == Operation::settle && !rule.cost.permits) return 0;
  return rule.cost.of(request.permits);
}

store::Item item_for(const CompiledPolicy& policy, const Rule& rule, const policy::Key& key,
                     const Request& request, Operation operation, std::uint64_t seed) {
  const auto kind = key.of_parts ? store::KeyKind::parts : store::KeyKind::whole;
  return {.limit = &rule.limit,
          .key = store::fingerprint(seed, rule.identity, kind, key.bytes, rule.has_record),
          .overflow_key = rule.overflow_key,
          .ask = {.cost = cost_of(rule, request, operation),
                  .max_wait = request.max_wait.value_or(rule.default_max_wait)},
          .shadow = rule.shadow,
          .when_full = policy.when_full};
}

}  // namespace

Planned plan(const Rules& rules, const Request& request, Operation operation, std::uint64_t seed,
             Items& items, const CompiledPolicy* likely) {
  Planned planned;
  const bool is_likely = likely != nullptr && likely->name == request.policy;
  const CompiledPolicy* policy = is_likely ? likely : rules.find(request.policy);
  if (policy == nullptr) {
    planned.fault = Fault::policy;
    planned.error = unknown_policy(rules, request.policy);
    return planned;
  }
  if (request.parts.too_many()) {
    planned.fault = Fault::parts;
    planned.error = fmt::format("a key has at most {} parts", Parts::kMax);
    return planned;
  }
  const policy::Subject subject{.key = request.key, .parts = request.parts.all()};
  const RuleGroup& all = policy->limits_for(subject);
  const RuleGroup& limits = request.skip_missing ? all.applicable_to(subject) : all;
  if (operation == Operation::take && limits.has_concurrency) {
    planned.fault = Fault::verb;
    planned.error = fmt::format(
        "the policy \"{}\" has a concurrent limit: enter and leave it instead of taking from it",
        policy->name);
    return planned;
  }
  thread_local std::string
      buffer;  // reused, so that a key of parts does not allocate on every call
  for (const Rule& rule : limits.rules) {
    const auto key = policy::key_of(subject, rule.by, buffer);
    if (!key) {
      planned.fault = rule.by.empty() && subject.parts.empty() ? Fault::key : Fault::parts;
      planned.error = key.error().message;
      return planned;
    }
    items.append([&] { return item_for(*policy, rule, *key, request, operation, seed); });
    if (policy->has_changed) [[unlikely]] {
      items.attach_history(*policy, subject, rule.identity);
    } else {
      items[items.size() - 1].history = policy->registry;
    }
  }
  planned.policy = policy;
  planned.limits = &limits;
  if (policy->blocks != nullptr) planned.blocked_until = policy->blocked_until(subject);
  return planned;
}

core::Decision closed_decision(const Rule& rule, Instant now) {
  const SplitShare& share = rule.split->share;
  const Nanos retry = share.waits() ? until(now, share.grows_at) : kFleetRetryAfter;
  return {.outcome = Outcome::limited, .retry_after = std::max(retry, Nanos{1})};
}

namespace {

// The verdict when a limit refuses without a decision of the table.
Verdict refused_by(const RuleGroup& limits, std::size_t position, const core::Decision& decision) {
  core::Verdict verdict{.decision = decision, .tightest = position};
  return judge(limits, verdict);
}

// Keeps the refusal with the longest retry_after.
void refuse(Planned& planned, std::size_t position, const core::Decision& decision) {
  std::optional<Verdict>& refusal = planned.split.refusal;
  if (refusal && refusal->decision.retry_after >= decision.retry_after) return;
  refusal = refused_by(*planned.limits, position, decision);
}

}  // namespace

void plan_split(Planned& planned, Items& items, Operation operation, MembershipStatus status,
                Instant now) {
  using policy::OnStoreFailure;
  const bool is_member = status == MembershipStatus::member;
  if (operation == Operation::settle || operation == Operation::reset ||
      operation == Operation::leave)
    return;
  SplitEffect& split = planned.split;
  split.degraded = !is_member;
  const OnStoreFailure mode =
      failure_mode(planned.policy->on_store_failure, status == MembershipStatus::misconfigured);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Rule& rule = planned.limits->rules[i];
    if (rule.split == nullptr) continue;
    const bool is_open = !is_member && mode == OnStoreFailure::open;
    const bool is_shut = !is_member && mode == OnStoreFailure::closed;
    if (!is_open && !is_shut && !rule.is_closed()) continue;
    split.bypassed |= std::uint32_t{1} << i;
    items[i].shadow = true;
    if (is_open) continue;
    // A node that is not a member refuses because of the failure mode, and not because of this
    // limit.
    if (!is_shut) split.refusing |= std::uint32_t{1} << i;
    if (rule.shadow) continue;
    const core::Decision at_once{.outcome = Outcome::limited,
                                 .limit = core::capacity(rule.limit),
                                 .retry_after = kFleetRetryAfter};
    refuse(planned, i, is_shut ? at_once : closed_decision(rule, now));
  }
  if (!split.refusal) return;
  split.refusal->refusing = split.refusing;
  split.refusal->degraded = split.degraded;
}

void apply_split(Verdict& verdict, const SplitEffect& split) {
  verdict.degraded |= split.degraded;
  verdict.refusing = (verdict.refusing & ~split.bypassed) | split.refusing;
}

policy::OnStoreFailure failure_mode(policy::OnStoreFailure chosen, bool misconfigured) {
  using policy::OnStoreFailure;
  return misconfigured && chosen == OnStoreFailure::open ? OnStoreFailure::closed : chosen;
}

core::Verdict at_policy_positions(core::Verdict verdict, std::span<const std::size_t> positions) {
  std::uint32_t refusing = 0;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if ((verdict.refusing >> i & 1) != 0) refusing |= std::uint32_t{1} << positions[i];
  }
  verdict.refusing = refusing;
  verdict.tightest = positions[verdict.tightest];
  return verdict;
}

Verdict judge(const RuleGroup& limits, const core::Verdict& verdict) {
  Verdict answer;
  judge(limits, verdict, answer);
  return answer;
}

void judge(const RuleGroup& limits, const core::Verdict& verdict, Verdict& answer) {
  answer.decision = core::word_by_word(verdict.decision);
  answer.limited_by = limits.names.empty() ? std::string_view{} : limits.names[verdict.tightest];
  answer.refusing = verdict.refusing;
  answer.degraded = false;
  answer.blocked = false;
  answer.fault = Fault::none;
  answer.error.clear();
}

LimitState state_of(const RuleGroup& limits, std::size_t position, Permits cost,
                    const core::Decision& decision) {
  const Rule& rule = limits.rules[position];
  LimitState state{.name = std::string{limits.names[position]},
                   .limit = policy::to_text(rule.split ? rule.split->whole : rule.limit),
                   .cost = cost,
                   .shadow = rule.shadow,
                   .decision = decision,
                   .origin = limits.origin};
  if (rule.split) state.share = {.part = rule.split->share.part, .whole = rule.split->share.whole};
  return state;
}

Verdict error_verdict(Planned planned) {
  Verdict verdict{.decision = {.outcome = Outcome::impossible, .retry_after = kNever}};
  verdict.fault = planned.fault;
  verdict.error = std::move(planned.error);
  return verdict;
}

Verdict blocked_verdict(Instant until, Instant now) {
  const Nanos left = std::max(until - now, Nanos{1});
  return {.decision = {.outcome = Outcome::limited, .retry_after = left, .reset_after = left},
          .limited_by = "block",
          .blocked = true};
}

Verdict early_verdict(const Planned& planned, Instant now) {
  return planned.blocked_until ? blocked_verdict(*planned.blocked_until, now)
                               : *planned.split.refusal;
}

}  // namespace weir::engine
