#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/plan.h"
#include "timeline/case_limits.h"
#include "timeline/world.h"

namespace weir::timeline {

namespace {

// What is remembered of one key under one limit, and the receipt of its last take.
struct Slot {
  core::State state{};
  core::Log::Head log_head{};
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

// A ring has to be unrolled before it can grow.
void grow_log(Slot& slot, Permits count) {
  if (slot.log_ring.size() >= static_cast<std::size_t>(count)) return;
  const auto first = slot.log_ring.begin() + slot.log_head.first;
  std::rotate(slot.log_ring.begin(), first, slot.log_ring.end());
  slot.log_head.first = 0;
  grow(slot.log_ring, count);
}

core::Memory memory_of(Slot& slot, const core::Limit& limit) {
  if (const auto* log = std::get_if<core::ExactLog>(&limit)) {
    grow_log(slot, log->count);
    return core::Log(slot.log_head, slot.log_ring);
  }
  if (const auto* concurrency = std::get_if<core::Concurrency>(&limit)) {
    // One free seat is enough for whoever enters next.
    grow(slot.seats, std::min<Permits>(concurrency->count, slot.seated + 1));
    return core::Holders(slot.seated, slot.seats);
  }
  return &slot.state;
}

// The state of all keys under the limits of one case, on the bare algorithms.
class CoreWorld final : public World {
 public:
  explicit CoreWorld(const Case& test) : case_(test), limits_(test) {}

  Answer apply(const Step& step, Instant now) override {
    if (step.op == Op::set_limit) {  // is about no key
      set_limit(step, now);
      return {};
    }
    limits_.advance(now);
    const Together& together = limits_.of(step.subject);
    const std::vector<Slot*> slots = slots_of(step.subject, together);
    if (slots.size() < together.limits.size()) {
      return {.decision = {.outcome = core::Outcome::impossible, .retry_after = core::kNever}};
    }
    const core::Verdict verdict = decide(step, together, slots, now);
    const auto& limits = case_.varying ? together.limits : case_.limits;
    return {.decision = verdict.decision,
            .tightest = verdict.tightest,
            .name = limits[verdict.tightest].name};
  }

 private:
  core::Verdict decide(const Step& step, const Together& together, const std::vector<Slot*>& slots,
                       Instant now) {
    std::vector<core::Charge> charges;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      charges.push_back(charge_for(step, together.limits[i], *slots[i]));
      charges.back().history = limits_.history_of(together, i);
    }
    switch (step.op) {
      case Op::take:
        return take(charges, slots, now, {});
      case Op::enter:
        return take(charges, slots, now, holder_of(step.holder));
      case Op::peek:
        return core::peek(charges, now, holder_of(step.holder));
      case Op::settle:
        return settle(charges, slots, now);
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

  using Slots = std::unordered_map<std::string, Slot>;

  // One for each limit; fewer if the subject lacks a part. (The reader has made sure that it does
  // not, but for steps back across a change of hours.)
  std::vector<Slot*> slots_of(const Subject& subject, const Together& together) {
    std::vector<Slot*> slots;
    const Parts parts = subject.borrowed_parts();
    for (std::size_t i = 0; i < together.limits.size(); ++i) {
      const policy::Limit& limit = together.limits[i];
      std::string buffer;
      const auto key = policy::key_of({.key = subject.key, .parts = parts.all()}, limit.by, buffer);
      if (!key) return {};
      const auto [slot, fresh] =
          slots_[together.identities[i]].try_emplace(std::string{key->bytes});
      const auto* smooth = std::get_if<core::Smooth>(&limit.rule);
      if (fresh && case_.start_empty && smooth != nullptr && !smooth->warms_up()) {
        slot->second.state = core::created_empty(case_.epoch);
      }
      slots.push_back(&slot->second);
    }
    return slots;
  }

  static core::Charge charge_for(const Step& step, const policy::Limit& limit, Slot& slot) {
    return {.limit = &limit.rule,
            .memory = memory_of(slot, limit.rule),
            .ask = ask_of(step, limit),
            .shadow = limit.shadow};
  }

  static core::Verdict take(const std::vector<core::Charge>& charges,
                            const std::vector<Slot*>& slots, Instant now, core::HolderId holder) {
    std::vector<core::Receipt> receipts(slots.size());
    const core::Verdict verdict = core::take(charges, now, holder, receipts);
    if (!verdict.decision) return verdict;
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i]->receipt = receipts[i];
    return verdict;
  }

  static core::Verdict settle(const std::vector<core::Charge>& charges,
                              const std::vector<Slot*>& slots, Instant now) {
    std::vector<core::Receipt> receipts;
    for (const Slot* slot : slots) receipts.push_back(slot->receipt);
    const core::Verdict verdict = core::settle(charges, now, receipts);
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i]->receipt = receipts[i];
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
    if (limits_.set_limit(step, now)) slots_[limits_.identity_at(step.limit_position)].clear();
  }

  core::HolderId holder_of(const std::string& name) {
    if (name.empty()) return {.high = 1, .low = ++anonymous_holders_};
    const auto [known, fresh] = holders_.try_emplace(name, holders_.size());
    return {.high = 0, .low = known->second + 1};
  }

  const Case& case_;
  CaseLimits limits_;
  std::unordered_map<std::string, Slots> slots_;  // by the identity of a limit
  std::unordered_map<std::string, std::uint64_t> holders_;
  std::uint64_t anonymous_holders_ = 0;
};

}  // namespace

std::unique_ptr<World> make_core_world(const Case& test) {
  return std::make_unique<CoreWorld>(test);
}

}  // namespace weir::timeline
