#include "timeline/case_limits.h"

#include <algorithm>
#include <utility>

namespace weir::timeline {

namespace {

// A limit keeps its identity when `set_limit` changes its numbers: the position identifies it.
LimitGroup by_position(const std::vector<policy::Limit>& limits) {
  LimitGroup together{limits, {}};
  for (std::size_t i = 0; i < limits.size(); ++i) together.identities.push_back(std::to_string(i));
  return together;
}

LimitGroup by_identity(const std::vector<policy::Limit>& limits) {
  return {limits, policy::identities_of("", limits)};
}

}  // namespace

CaseLimits::CaseLimits(const Case& test) : case_(test) {
  if (!test.keyed_policy) {
    defaults_ = by_position(test.limits);
    return;
  }
  defaults_ = by_identity(policy::default_limits(*test.keyed_policy, test.epoch));
  if (!test.keyed_policy->schedule.empty()) schedules_.push_back(&test.keyed_policy->schedule);
  span_ = policy::steady_span(schedules_, test.epoch);
  overrides_ = policy::PatternIndex(test.keyed_policy->overrides);
  for (const policy::Override& own : test.keyed_policy->overrides) {
    overridden_.push_back(by_identity(own.limits));
  }
}

void CaseLimits::advance(Instant now) {
  for (const Instant at : policy::changes_until(schedules_, span_, now)) change_hours(at);
}

const LimitGroup& CaseLimits::of(const StepSubject& subject) const {
  if (overridden_.empty()) return defaults_;
  const Parts parts = subject.borrowed_parts();
  const auto own = overrides_.find({.key = subject.key, .parts = parts.all()});
  return own ? overridden_[*own] : defaults_;
}

// Changes to the limits in force from `at` on; a limit that stays keeps its price history.
void CaseLimits::change_hours(Instant at) {
  LimitGroup next = by_identity(policy::default_limits(*case_.keyed_policy, at));
  for (std::size_t i = 0; i < next.limits.size(); ++i) {
    const auto was = std::ranges::find(defaults_.identities, next.identities[i]);
    if (was == defaults_.identities.end()) continue;
    const auto& old =
        defaults_.limits[static_cast<std::size_t>(was - defaults_.identities.begin())];
    succeed(next.limits[i], old.limit, next.identities[i], at);
  }
  defaults_ = std::move(next);
  span_ = policy::steady_span(schedules_, at);
}

void CaseLimits::succeed(policy::Limit& next, const core::Limit& old, const std::string& identity,
                         Instant at) {
  const auto* from = std::get_if<core::Bucket>(&old);
  auto* to = std::get_if<core::Bucket>(&next.limit);
  if (from != nullptr && to != nullptr) *to = prices_[identity].change(*to, *from, at);
}

const core::PriceHistory* CaseLimits::history_of(const LimitGroup& limits,
                                                 std::size_t position) const {
  const auto found = prices_.find(limits.identities[position]);
  return &limits == &defaults_ && found != prices_.end() ? &found->second : nullptr;
}

bool CaseLimits::set_limit(const Step& step, Instant now) {
  policy::Limit& limit = defaults_.limits[step.limit_position];
  const bool other = !policy::same_algorithm(limit.limit, step.limit.limit);
  const core::Limit old = std::exchange(limit, step.limit).limit;
  succeed(limit, old, identity_at(step.limit_position), now);
  return other;
}

core::Ask ask_of(const Step& step, const policy::Limit& limit) {
  const Nanos patience = core::is_queue(limit.limit) ? kForever : Nanos{0};
  // Settling corrects the permits asked for; a fixed cost needs no correction.
  const Permits cost =
      step.op == Op::settle && !limit.cost.permits ? 0 : limit.cost.of(step.permits);
  return {.cost = cost, .max_wait = step.max_wait.value_or(patience)};
}

}  // namespace weir::timeline
