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

// Strangers may send any name: neither is a long one repeated, nor is it compared with thousands.
std::string no_such_policy(const Rules& rules, std::string_view name) {
  constexpr std::size_t many = 100;
  std::vector<std::string_view> names;
  if (rules.policies.size() <= many) {
    for (const auto& [known, policy] : rules.policies) names.push_back(known);
  }
  return fmt::format("there is no policy \"{}\"{}", shortened(name), did_you_mean(name, names));
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
             Items& items, const Policy* likely) {
  Planned planned;
  const bool is_likely = likely != nullptr && likely->name == request.policy;
  const Policy* policy = is_likely ? likely : rules.find(request.policy);
  if (policy == nullptr) {
    planned.fault = Fault::policy;
    planned.error = no_such_policy(rules, request.policy);
    return planned;
  }
  if (request.parts.too_many()) {
    planned.fault = Fault::parts;
    planned.error = fmt::format("a key has at most {} parts", Parts::kMost);
    return planned;
  }
  const policy::Subject subject{.key = request.key, .parts = request.parts.all()};
  const Together& all = policy->limits_for(subject);
  const Together& limits = request.skip_missing ? all.countable(subject) : all;
  if (verb == Verb::take && limits.has_concurrency) {
    planned.fault = Fault::verb;
    planned.error = fmt::format(
        "the policy \"{}\" has a concurrent limit: enter and leave it instead of taking from it",
        policy->name);
    return planned;
  }
  thread_local std::string buffer;  // a key of parts needs no memory of its own each time
  for (const Rule& rule : limits.rules) {
    const auto key = policy::key_of(subject, rule.by, buffer);
    if (!key) {
      planned.fault = rule.by.empty() && subject.parts.empty() ? Fault::key : Fault::parts;
      planned.error = key.error().message;
      return planned;
    }
    items.append([&] { return item_for(*policy, rule, *key, request, verb, seed); });
    if (policy->has_changed) [[unlikely]] {
      items.remember(*policy, subject, rule.identity);
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
  const Share& share = rule.split->share;
  const Nanos retry = share.waits() ? until(now, share.grows_at) : kAskAgain;
  return {.outcome = Outcome::limited, .retry_after = std::max(retry, Nanos{1})};
}

namespace {

// A limit refuses for want of the node's part, or without being asked.
Verdict refused_by(const Together& limits, std::size_t position, const core::Decision& decision) {
  core::Verdict verdict{.decision = decision, .tightest = position};
  return judge(limits, verdict);
}

// The tightest of those that refuse: the one that does for the longest time.
void refuse(Planned& planned, std::size_t position, const core::Decision& decision) {
  std::optional<Verdict>& refusal = planned.split.refusal;
  if (refusal && refusal->decision.retry_after >= decision.retry_after) return;
  refusal = refused_by(*planned.limits, position, decision);
}

}  // namespace

void plan_split(Planned& planned, Items& items, Verb verb, Belonging belonging, Instant now) {
  using policy::OnStoreFailure;
  const bool is_member = belonging == Belonging::member;
  if (verb == Verb::settle || verb == Verb::reset || verb == Verb::leave) return;
  SplitCall& split = planned.split;
  split.degraded = !is_member;
  const OnStoreFailure mode =
      mode_of(planned.policy->on_store_failure, belonging == Belonging::mistaken);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Rule& rule = planned.limits->rules[i];
    if (rule.split == nullptr) continue;
    const bool is_open = !is_member && mode == OnStoreFailure::open;
    const bool is_shut = !is_member && mode == OnStoreFailure::closed;
    if (!is_open && !is_shut && !rule.is_closed()) continue;
    split.unasked |= std::uint32_t{1} << i;
    items[i].shadow = true;
    if (is_open) continue;
    // (Who is no member refuses for want of an answer, and not because of the limit.)
    if (!is_shut) split.refusing |= std::uint32_t{1} << i;
    if (rule.shadow) continue;
    const core::Decision at_once{
        .outcome = Outcome::limited, .limit = core::capacity(rule.limit), .retry_after = kAskAgain};
    refuse(planned, i, is_shut ? at_once : closed_decision(rule, now));
  }
  if (!split.refusal) return;
  split.refusal->refusing = split.refusing;
  split.refusal->degraded = split.degraded;
}

void amend(Verdict& verdict, const SplitCall& split) {
  verdict.degraded |= split.degraded;
  verdict.refusing = (verdict.refusing & ~split.unasked) | split.refusing;
}

policy::OnStoreFailure mode_of(policy::OnStoreFailure chosen, bool mistaken) {
  using policy::OnStoreFailure;
  return mistaken && chosen == OnStoreFailure::open ? OnStoreFailure::closed : chosen;
}

core::Verdict placed(core::Verdict verdict, std::span<const std::size_t> positions) {
  std::uint32_t refusing = 0;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if ((verdict.refusing >> i & 1) != 0) refusing |= std::uint32_t{1} << positions[i];
  }
  verdict.refusing = refusing;
  verdict.tightest = positions[verdict.tightest];
  return verdict;
}

Verdict judge(const Together& limits, const core::Verdict& verdict) {
  Verdict answer;
  judge(limits, verdict, answer);
  return answer;
}

void judge(const Together& limits, const core::Verdict& verdict, Verdict& answer) {
  answer.decision = core::word_by_word(verdict.decision);
  answer.limited_by = limits.names.empty() ? std::string_view{} : limits.names[verdict.tightest];
  answer.refusing = verdict.refusing;
  answer.degraded = false;
  answer.blocked = false;
  answer.fault = Fault::none;
  answer.error.clear();
}

LimitState state_of(const Together& limits, std::size_t position, Permits cost,
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

Verdict error_of(Planned planned) {
  Verdict verdict{.decision = {.outcome = Outcome::impossible, .retry_after = kNever}};
  verdict.fault = planned.fault;
  verdict.error = std::move(planned.error);
  return verdict;
}

Verdict blocked(Instant until, Instant now) {
  const Nanos left = std::max(until - now, Nanos{1});
  return {.decision = {.outcome = Outcome::limited, .retry_after = left, .reset_after = left},
          .limited_by = "block",
          .blocked = true};
}

Verdict decided(const Planned& planned, Instant now) {
  return planned.blocked_until ? blocked(*planned.blocked_until, now) : *planned.split.refusal;
}

}  // namespace weir::engine
