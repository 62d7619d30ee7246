#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/saturating.h"
#include "core/plan.h"
#include "timeline/timeline.h"

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

// The state of all keys under the limits of one case.
class World {
 public:
  explicit World(const Case& test) : case_(test), limits_(test.limits), slots_(limits_.size()) {}

  core::Verdict apply(const Step& step, Instant now) {
    const std::vector<Slot*> slots = slots_of(step.subject);
    std::vector<core::Charge> charges;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      charges.push_back(charge_for(step, limits_[i], *slots[i]));
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
        set_limit(step, now);
        break;
    }
    return {};
  }

  // A limit's name, or its position.
  std::string name_of(std::size_t position) const {
    const std::string& name = limits_[position].name;
    return name.empty() ? fmt::format("{}", position) : name;
  }

 private:
  using Slots = std::unordered_map<std::string, Slot>;

  std::vector<Slot*> slots_of(const policy::Subject& subject) {
    std::vector<Slot*> slots;
    for (std::size_t i = 0; i < limits_.size(); ++i) {
      // The reader has made sure that there is a key.
      const auto [slot, fresh] = slots_[i].try_emplace(*policy::key_of(subject, limits_[i].by));
      const auto* smooth = std::get_if<core::Smooth>(&limits_[i].rule);
      if (fresh && case_.start_empty && smooth != nullptr && !smooth->warms_up()) {
        slot->second.state = core::created_empty(case_.epoch);
      }
      slots.push_back(&slot->second);
    }
    return slots;
  }

  static core::Charge charge_for(const Step& step, const policy::Limit& limit, Slot& slot) {
    const Nanos patience = core::is_queue(limit.rule) ? kForever : Nanos{0};
    // Settling corrects the permits that were asked for; a fixed cost was right to begin with.
    const Permits cost =
        step.op == Op::settle && !limit.cost.permits ? 0 : limit.cost.of(step.permits);
    return {.limit = &limit.rule,
            .memory = memory_of(slot, limit.rule),
            .ask = {.cost = cost, .max_wait = step.max_wait.value_or(patience)},
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
    policy::Limit& limit = limits_[step.limit_position];
    if (!policy::same_algorithm(limit.rule, step.limit.rule)) slots_[step.limit_position].clear();
    const core::Limit old = std::exchange(limit, step.limit).rule;
    limit.rule = core::succeeding(limit.rule, old, now);
  }

  core::HolderId holder_of(const std::string& name) {
    if (name.empty()) return {.high = 1, .low = ++anonymous_holders_};
    const auto [known, fresh] = holders_.try_emplace(name, holders_.size());
    return {.high = 0, .low = known->second + 1};
  }

  const Case& case_;
  std::vector<policy::Limit> limits_;
  std::vector<Slots> slots_;  // one table per limit
  std::unordered_map<std::string, std::uint64_t> holders_;
  std::uint64_t anonymous_holders_ = 0;
};

// What came of a step.
struct Outcomes {
  std::int64_t allowed = 0;
  std::vector<Nanos> waits;
  core::Verdict last;
};

Outcomes run_step(World& world, const Step& step, Instant now) {
  Outcomes outcomes;
  for (std::int64_t i = 0; i < step.n; ++i) {
    outcomes.last = world.apply(step, now);
    if (!outcomes.last.decision) continue;
    ++outcomes.allowed;
    if (step.expected.waits) outcomes.waits.push_back(outcomes.last.decision.wait);
  }
  return outcomes;
}

// ---- Comparing

std::string seconds_text(Nanos duration) {
  const std::string text = fmt::format("{}.{:09}", duration.count() / 1'000'000'000,
                                       std::abs(duration.count() % 1'000'000'000));
  const std::size_t last = text.find_last_not_of('0');
  return text.substr(0, text[last] == '.' ? last : last + 1) + " s";
}

std::string retry_text(Nanos retry) {
  return retry == core::kNever ? "never" : seconds_text(retry);
}

std::string waits_text(const std::vector<Nanos>& waits) {
  constexpr std::size_t shown = 20;
  std::string text;
  for (std::size_t i = 0; i < std::min(waits.size(), shown); ++i) {
    text += (i == 0 ? "" : ", ") + seconds_text(waits[i]);
  }
  if (waits.size() > shown) text += fmt::format(", … ({} in all)", waits.size());
  return text.empty() ? "none" : text;
}

std::string_view outcome_text(core::Outcome outcome) {
  switch (outcome) {
    case core::Outcome::allowed:
      return "allowed";
    case core::Outcome::limited:
      return "limited";
    case core::Outcome::impossible:
      return "impossible";
  }
  return {};
}

bool near(Nanos a, Nanos b, Nanos tolerance) {
  // "Never" is not a duration that others can be close to.
  if (a < Nanos{0} || b < Nanos{0}) return a == b;
  return std::max(a, b) - std::min(a, b) <= tolerance;
}

class Comparison {
 public:
  Comparison(const Case& test, std::size_t step, std::vector<Mismatch>& mismatches)
      : case_(test), step_(step), mismatches_(mismatches) {}

  void check(const Outcomes& actual, const std::string& limited_by) {
    const Expected& expected = case_.steps[step_].expected;
    const core::Decision& last = actual.last.decision;
    const auto close = [&](Nanos a, Nanos b) { return near(a, b, case_.tolerance); };
    const auto whole = [](std::int64_t n) { return fmt::format("{}", n); };

    compare("allowed", expected.allowed, actual.allowed, std::equal_to<>{}, whole);
    const auto all_close = [&](const auto& a, const auto& b) {
      return std::ranges::equal(a, b, close);
    };
    compare("waits", expected.waits, actual.waits, all_close, waits_text);
    compare("remaining", expected.remaining, last.remaining, std::equal_to<>{}, whole);
    compare("retry_after", expected.retry_after, last.retry_after, close, retry_text);
    compare("reset_after", expected.reset_after, last.reset_after, close, seconds_text);
    compare("outcome", expected.outcome, last.outcome, std::equal_to<>{}, outcome_text);
    const std::string position = fmt::format("{}", actual.last.tightest);
    const auto names_it = [&](const std::string& wanted, const std::string& name) {
      return wanted == name || wanted == position;
    };
    compare("limited_by", expected.limited_by, limited_by, names_it,
            [](const std::string& name) { return name; });
  }

 private:
  template <typename T, typename Matches, typename Text>
  void compare(std::string_view what, const std::optional<T>& expected, const T& actual,
               Matches matches, Text text) {
    if (!expected || matches(*expected, actual)) return;
    mismatches_.push_back({.place = case_.steps[step_].place,
                           .step = step_ + 1,
                           .what = std::string{what},
                           .expected = std::string{text(*expected)},
                           .actual = std::string{text(actual)}});
  }

  const Case& case_;
  std::size_t step_;
  std::vector<Mismatch>& mismatches_;
};

}  // namespace

std::vector<Mismatch> run(const Case& test) {
  std::vector<Mismatch> mismatches;
  World world(test);
  for (std::size_t i = 0; i < test.steps.size(); ++i) {
    const Step& step = test.steps[i];
    const Outcomes outcomes = run_step(world, step, later(test.epoch, step.at));
    Comparison(test, i, mismatches).check(outcomes, world.name_of(outcomes.last.tightest));
  }
  return mismatches;
}

}  // namespace weir::timeline
