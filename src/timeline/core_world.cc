#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/plan.h"
#include "timeline/case_limits.h"
#include "timeline/world.h"

namespace weir::timeline {

namespace {

// The state of one key under one limit, and the receipt of its last take.
struct KeyState {
  core::State state{};
  core::AdmissionLog::Head log_head{};
  std::vector<core::LogEntry> log_ring;
  std::uint32_t seated = 0;
  std::vector<core::Holder> seats;
  core::Receipt receipt{};
};

template <typename T>
void grow(std::vector<T>& places, Permits count) {
  if (places.size() < static_cast<std::size_t>(count))
    places.resize(static_cast<std::size_t>(count));
}

// The ring buffer must be unrolled before it can grow.
void grow_log(KeyState& state, Permits count) {
  if (state.log_ring.size() >= static_cast<std::size_t>(count)) return;
  const auto first = state.log_ring.begin() + state.log_head.first;
  std::rotate(state.log_ring.begin(), first, state.log_ring.end());
  state.log_head.first = 0;
  grow(state.log_ring, count);
}

core::Memory memory_of(KeyState& state, const core::Limit& limit) {
  if (const auto* log = std::get_if<core::SlidingLog>(&limit)) {
    grow_log(state, log->count);
    return core::AdmissionLog(state.log_head, state.log_ring);
  }
  if (const auto* concurrency = std::get_if<core::Concurrency>(&limit)) {
    // One free seat is enough for the next holder.
    grow(state.seats, std::min<Permits>(concurrency->count, state.seated + 1));
    return core::Holders(state.seated, state.seats);
  }
  return &state.state;
}

// Runs a case on the algorithms alone, with all states in maps.
class CoreWorld final : public World {
 public:
  explicit CoreWorld(const Case& test) : case_(test), limits_(test) {}

  ArrivalResult apply(const Step& step, Instant now) override {
    if (step.op == Op::set_limit) {  // has no key
      set_limit(step, now);
      return {};
    }
    limits_.advance(now);
    const LimitGroup& together = limits_.of(step.subject);
    const std::vector<KeyState*> states = states_of(step.subject, together);
    if (states.size() < together.limits.size()) {
      return {.decision = {.outcome = core::Outcome::impossible, .retry_after = core::kNever}};
    }
    const core::Verdict verdict = decide(step, together, states, now);
    const auto& limits = case_.keyed_policy ? together.limits : case_.limits;
    return {.decision = verdict.decision,
            .tightest = verdict.tightest,
            .name = limits[verdict.tightest].name};
  }

 private:
  core::Verdict decide(const Step& step, const LimitGroup& together,
                       const std::vector<KeyState*>& states, Instant now) {
    std::vector<core::Charge> charges;
    for (std::size_t i = 0; i < states.size(); ++i) {
      charges.push_back(charge_for(step, together.limits[i], *states[i]));
      charges.back().history = limits_.history_of(together, i);
    }
    switch (step.op) {
      case Op::take:
        return take(charges, states, now, {});
      case Op::enter:
        return take(charges, states, now, holder_of(step.holder));
      case Op::peek:
        return core::peek(charges, now, holder_of(step.holder));
      case Op::settle:
        return settle(charges, states, now);
      case Op::leave:
        return leave(charges, now, holder_of(step.holder));
      case Op::reset:
        for (const core::Charge& charge : charges) core::reset(charge.memory);
        break;
      case Op::set_limit:
        break;
    }
    return {};
  }

  using KeyStates = std::unordered_map<std::string, KeyState>;

  // One for each limit; none if the subject lacks a part, which the reader allows only for steps
  // back in time across a change of hours.
  std::vector<KeyState*> states_of(const StepSubject& subject, const LimitGroup& together) {
    std::vector<KeyState*> states;
    const Parts parts = subject.borrowed_parts();
    for (std::size_t i = 0; i < together.limits.size(); ++i) {
      const policy::Limit& limit = together.limits[i];
      std::string buffer;
      const auto key = policy::key_of({.key = subject.key, .parts = parts.all()}, limit.by, buffer);
      if (!key) return {};
      const auto [state, fresh] =
          states_[together.identities[i]].try_emplace(std::string{key->bytes});
      const auto* smooth = std::get_if<core::Smooth>(&limit.limit);
      if (fresh && case_.start_empty && smooth != nullptr && !smooth->warms_up()) {
        state->second.state = core::created_empty(case_.epoch);
      }
      states.push_back(&state->second);
    }
    return states;
  }

  static core::Charge charge_for(const Step& step, const policy::Limit& limit, KeyState& state) {
    return {.limit = &limit.limit,
            .memory = memory_of(state, limit.limit),
            .ask = ask_of(step, limit),
            .shadow = limit.shadow};
  }

  static core::Verdict take(const std::vector<core::Charge>& charges,
                            const std::vector<KeyState*>& states, Instant now,
                            core::HolderId holder) {
    std::vector<core::Receipt> receipts(states.size());
    const core::Verdict verdict = core::take(charges, now, holder, receipts);
    if (!verdict.decision) return verdict;
    for (std::size_t i = 0; i < states.size(); ++i) states[i]->receipt = receipts[i];
    return verdict;
  }

  static core::Verdict settle(const std::vector<core::Charge>& charges,
                              const std::vector<KeyState*>& states, Instant now) {
    std::vector<core::Receipt> receipts;
    for (const KeyState* state : states) receipts.push_back(state->receipt);
    const core::Verdict verdict = core::settle(charges, now, receipts);
    for (std::size_t i = 0; i < states.size(); ++i) states[i]->receipt = receipts[i];
    return verdict;
  }

  static core::Verdict leave(const std::vector<core::Charge>& charges, Instant now,
                             core::HolderId holder) {
    const bool left = core::leave(charges, now, holder);
    core::Verdict verdict = core::peek(charges, now);
    verdict.decision.outcome = left ? core::Outcome::allowed : core::Outcome::limited;
    return verdict;
  }

  void set_limit(const Step& step, Instant now) {
    if (limits_.set_limit(step, now)) states_[limits_.identity_at(step.limit_position)].clear();
  }

  core::HolderId holder_of(const std::string& name) {
    if (name.empty()) return {.high = 1, .low = ++anonymous_holders_};
    const auto [known, fresh] = holders_.try_emplace(name, holders_.size());
    return {.high = 0, .low = known->second + 1};
  }

  const Case& case_;
  CaseLimits limits_;
  std::unordered_map<std::string, KeyStates> states_;  // by the identity of a limit
  std::unordered_map<std::string, std::uint64_t> holders_;
  std::uint64_t anonymous_holders_ = 0;
};

}  // namespace

std::unique_ptr<World> make_core_world(const Case& test) {
  return std::make_unique<CoreWorld>(test);
}

}  // namespace weir::timeline
