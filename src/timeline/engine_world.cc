#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "core/smooth.h"
#include "engine/engine_access.h"
#include "engine/policy_set_access.h"
#include "timeline/world.h"
#include "weir/engine.h"

namespace weir::timeline {

namespace {

// The time of the current step, which may be before that of the previous step.
class StepClock final : public Clock {
 public:
  Instant now() const noexcept override { return time; }
  bool sleep_until(Instant, std::stop_token) const override { return true; }

  Instant time{};
};

constexpr std::string_view kPolicy = "case";

// Names all limits: a limit keeps its identity when its numbers change only if it has a name.
std::vector<policy::Limit> named(std::vector<policy::Limit> limits) {
  for (std::size_t i = 0; i < limits.size(); ++i) {
    limits[i].name = limits[i].name.empty() ? fmt::format("unnamed {}", i)
                                            : fmt::format("named {}", limits[i].name);
  }
  return limits;
}

PolicySet policies_for(const std::vector<policy::Limit>& limits) {
  policy::PolicySet set;
  set[std::string{kPolicy}].limits = limits;
  return policy_set_of(std::move(set));
}

// A policy whose limits depend on key and time does not change within a case.
PolicySet policies_for(const Case& test, const std::vector<policy::Limit>& limits) {
  if (!test.keyed_policy) return policies_for(limits);
  return policy_set_of({{std::string{kPolicy}, *test.keyed_policy}});
}

// Runs a case on an engine, through its public interface.
class EngineWorld final : public World {
 public:
  explicit EngineWorld(const Case& test)
      : case_(test),
        limits_(named(test.limits)),
        engine_(policies_for(test, limits_), {.clock = &clock_}) {}

  ArrivalResult apply(const Step& step, Instant now) override {
    clock_.time = now;
    if (step.op == Op::set_limit) {
      set_limit(step);
      return {};
    }
    const Request request{.policy = kPolicy,
                          .key = step.subject.key,
                          .parts = step.subject.borrowed_parts(),
                          .permits = step.permits,
                          .max_wait = step.max_wait};
    if (case_.start_empty) start_empty(request, step.subject);
    const Verdict verdict = decide(step, request);
    if (case_.keyed_policy) return answer_of_policy(step, request, verdict);
    const std::size_t tightest = position_of(verdict.limited_by);
    return {
        .decision = verdict.decision, .tightest = tightest, .name = case_.limits[tightest].name};
  }

 private:
  // The engine chooses the limits; it is asked for them only if the step expects something of them.
  ArrivalResult answer_of_policy(const Step& step, const Request& request, const Verdict& verdict) {
    ArrivalResult answer{.decision = verdict.decision, .name = verdict.limited_by};
    if (!step.expected.limited_by) return answer;
    const auto states = engine_.explain(request);
    if (!states) return answer;
    const auto found = std::ranges::find(*states, verdict.limited_by, &LimitState::name);
    if (found == states->end()) return answer;
    answer.tightest = static_cast<std::size_t>(found - states->begin());
    return answer;
  }

  Verdict decide(const Step& step, const Request& request) {
    const std::string holder = step.holder.empty() ? anonymous() : "named " + step.holder;
    switch (step.op) {
      case Op::take:
        return take(step, request);
      case Op::enter:
        return engine_.enter(request, holder);
      case Op::peek:
        return engine_.peek(request, holder);
      case Op::settle:
        return engine_.settle(request, receipts_[written(step.subject)]);
      case Op::leave:
        return leave(request, holder);
      case Op::reset:
        engine_.reset(request);
        break;
      case Op::set_limit:
        break;
    }
    return {};
  }

  Verdict take(const Step& step, const Request& request) {
    Receipt receipt;
    const Verdict verdict = engine_.take(request, receipt);
    if (verdict) receipts_[written(step.subject)] = std::move(receipt);
    return verdict;
  }

  Verdict leave(const Request& request, std::string_view holder) {
    const bool left = engine_.leave(request, holder);
    Verdict verdict = engine_.peek(request, anonymous());
    verdict.decision.outcome = left ? Outcome::allowed : Outcome::limited;
    return verdict;
  }

  void set_limit(const Step& step) {
    policy::Limit& limit = limits_[step.limit_position];
    const std::string name = limit.name;
    limit = step.limit;
    limit.name = name;
    engine_.replace(policies_for(limits_));
  }

  // Gives the key the state of a smooth limiter that was created empty at second 0.
  void start_empty(const Request& request, const StepSubject& subject) {
    if (!started_.insert(written(subject)).second) return;
    for (std::size_t i = 0; i < limits_.size(); ++i) {
      const auto* smooth = std::get_if<core::Smooth>(&limits_[i].limit);
      if (smooth == nullptr || smooth->warms_up()) continue;
      detail::EngineAccess::start_with(engine_, request, i, core::created_empty(case_.epoch));
    }
  }

  std::size_t position_of(std::string_view name) const {
    const auto found = std::ranges::find(limits_, name, &policy::Limit::name);
    return found == limits_.end() ? 0 : static_cast<std::size_t>(found - limits_.begin());
  }

  std::string anonymous() { return fmt::format("nobody {}", ++anonymous_); }

  static std::string written(const StepSubject& subject) {
    std::string text = fmt::format("{}:{}", subject.key.size(), subject.key);
    for (const auto& [name, value] : subject.parts) {
      text += fmt::format(";{}:{}={}:{}", name.size(), name, value.size(), value);
    }
    return text;
  }

  const Case& case_;
  std::vector<policy::Limit> limits_;
  StepClock clock_;
  Engine engine_;
  std::unordered_map<std::string, Receipt> receipts_;  // of the last take of each subject
  std::set<std::string> started_;
  std::uint64_t anonymous_ = 0;
};

}  // namespace

std::unique_ptr<World> make_engine_world(const Case& test) {
  return std::make_unique<EngineWorld>(test);
}

Parts StepSubject::borrowed_parts() const {
  Parts borrowed;
  for (const auto& [name, value] : parts) borrowed.add({.name = name, .value = value});
  return borrowed;
}

}  // namespace weir::timeline
