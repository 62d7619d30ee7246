#include "core/plan.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

#include "base/fixed_vector.h"

namespace weir::core {

namespace {

template <typename... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <typename... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

State& state_of(const Charge& charge) { return **std::get_if<State*>(&charge.memory); }
const AdmissionLog& log_of(const Charge& charge) {
  return *std::get_if<AdmissionLog>(&charge.memory);
}
const Holders& holders_of(const Charge& charge) { return *std::get_if<Holders>(&charge.memory); }

bool is_concurrency(const Charge& charge) {
  return std::holds_alternative<Concurrency>(*charge.limit);
}

HolderId salted_id(const Charge& charge, const HolderId& holder) {
  return holder.mixed_with(charge.id_salt);
}

Evaluation decide(const Charge& charge, Instant now, const HolderId& holder) {
  return std::visit(
      Overloaded{
          [&](const SlidingLog& l) { return decide(l, log_of(charge), now, charge.ask); },
          [&](const Concurrency& l) {
            return decide(l, holders_of(charge), salted_id(charge, holder), now, charge.ask.cost);
          },
          [&](const auto& l) { return decide(l, state_of(charge), now, charge.ask); },
      },
      *charge.limit);
}

void commit(const Charge& charge, const Evaluation& evaluation, Instant now, const HolderId& holder,
            Receipt* receipt) {
  Receipt filled{.at = in_range(now), .taken = charge.ask.cost};
  if (std::holds_alternative<State*>(charge.memory)) {
    filled.before = state_of(charge);
    filled.after = evaluation.next;
    state_of(charge) = evaluation.next;
  } else if (const auto* log = std::get_if<SlidingLog>(charge.limit)) {
    filled.at = core::charge(*log, log_of(charge), now, charge.ask.cost);
  } else {
    enter(std::get<Concurrency>(*charge.limit), holders_of(charge), salted_id(charge, holder), now,
          charge.ask.cost);
  }
  if (receipt != nullptr) *receipt = filled;
}

Decision describe(const Charge& charge, const Evaluation& evaluation, Instant now) {
  return std::visit(
      Overloaded{
          [&](const SlidingLog& l) {
            return Decision{.outcome = evaluation.outcome,
                            .limit = capacity(l),
                            .remaining = remaining(l, log_of(charge), now),
                            .retry_after = evaluation.retry_after,
                            .reset_after = until(in_range(now), rest_at(l, log_of(charge))),
                            .wait = evaluation.wait};
          },
          [&](const Concurrency& l) {
            return Decision{.outcome = evaluation.outcome,
                            .limit = capacity(l),
                            .remaining = remaining(l, holders_of(charge), now),
                            .retry_after = evaluation.retry_after,
                            .reset_after = until(in_range(now), rest_at(holders_of(charge))),
                            .wait = evaluation.wait};
          },
          [&](const auto& l) { return describe(l, evaluation, state_of(charge), now); },
      },
      *charge.limit);
}

// Converts the states of buckets to their present price.
void convert_states(std::span<const Charge> charges, Instant now) {
  for (const Charge& charge : charges) {
    const auto* bucket = std::get_if<Bucket>(charge.limit);
    if (bucket == nullptr) continue;
    State& state = state_of(charge);
    state = state_under_current_limit(*bucket, state, now, charge.history);
  }
}

// True if the holder already holds permits of all concurrency limits that count. Shadow limits do
// not count beside others: a full shadow limit has not admitted the holder, which must not turn its
// renewal into a new call.
bool renews(std::span<const Charge> charges, Instant now, const HolderId& holder) {
  const bool only_shadows = std::ranges::none_of(
      charges, [](const Charge& charge) { return is_concurrency(charge) && !charge.shadow; });
  bool checked = false;
  for (const Charge& charge : charges) {
    if (!is_concurrency(charge) || (charge.shadow && !only_shadows)) continue;
    checked = true;
    if (!holds(holders_of(charge), salted_id(charge, holder), now)) return false;
  }
  return checked;
}

// The evaluations of all limits.
struct Decided {
  Decided(std::span<const Charge> charges, Instant now, const HolderId& holder)
      : renewal(renews(charges, now, holder)) {
    for (const Charge& charge : charges) {
      const bool checked = !renewal || is_concurrency(charge);
      const Evaluation& evaluation =
          evaluations.emplace_back(checked ? decide(charge, now, holder) : Evaluation{});
      if (evaluation.outcome != Outcome::allowed && !charge.shadow) admitted = false;
    }
  }

  bool renewal;
  bool admitted = true;
  FixedVector<Evaluation, kMaxLimits> evaluations;
};

bool is_charged(const Decided& decided, const Charge& charge, std::size_t i) {
  // A shadow limit without room for the renewing holder is not charged.
  if (decided.renewal)
    return is_concurrency(charge) && decided.evaluations[i].outcome == Outcome::allowed;
  return decided.admitted && decided.evaluations[i].outcome == Outcome::allowed;
}

// A single limit may change its state even when it refuses: redis-cell clears the debt when a
// negative cost exceeds it.
bool changes_by_refusal(std::span<const Charge> charges) {
  return charges.size() == 1 && !charges[0].shadow &&
         std::holds_alternative<State*>(charges[0].memory);
}

// The verdict over all evaluations. An empty list of evaluations means that all were allowed.
Verdict verdict_on(std::span<const Charge> charges, std::span<const Evaluation> evaluations,
                   Instant now, std::span<Decision> each) {
  FixedVector<Decision, kMaxLimits> decisions;
  for (std::size_t i = 0; i < charges.size(); ++i) {
    decisions.emplace_back(
        describe(charges[i], evaluations.empty() ? Evaluation{} : evaluations[i], now));
  }
  for (std::size_t i = 0; i < std::min(each.size(), decisions.size()); ++i) each[i] = decisions[i];
  return judge(decisions, charges);
}

// Orders refusals by retry_after; `impossible` is the longest.
Nanos retry_rank(const Decision& decision) {
  return decision.outcome == Outcome::impossible ? Nanos::max() : decision.retry_after;
}

bool is_tighter(const Decision& a, const Decision& b) {
  const bool a_passes = static_cast<bool>(a);
  const bool b_passes = static_cast<bool>(b);
  if (a_passes != b_passes) return !a_passes;
  return a_passes ? a.remaining < b.remaining : retry_rank(a) > retry_rank(b);
}

void settle_one(const Charge& charge, Instant now, Receipt& receipt) {
  const Permits delta = charge.ask.cost;
  std::visit(Overloaded{
                 [&](const SlidingLog& l) {
                   if (delta > 0) core::charge(l, log_of(charge), now, delta);
                   if (delta < 0) refund(l, log_of(charge), now, receipt, sat_sub(0, delta));
                 },
                 [](const Concurrency&) {},
                 [&](const auto& l) {
                   State& state = state_of(charge);
                   if (delta > 0) state = debit(l, state, now, delta);
                   if (delta < 0) state = refund(l, state, now, receipt, sat_sub(0, delta));
                 },
             },
             *charge.limit);
}

bool is_log(const Charge& charge) { return std::holds_alternative<SlidingLog>(*charge.limit); }

// The refusal that a limit would give to a debit, if it would not admit it.
std::optional<Decision> refusal_of(const Charge& charge, Instant now) {
  if (is_concurrency(charge) || charge.ask.cost < 0) return std::nullopt;
  const Evaluation evaluation = decide(charge, now, {});
  if (evaluation.outcome == Outcome::allowed) return std::nullopt;
  return describe(charge, evaluation, now);
}

}  // namespace

Verdict judge(std::span<const Decision> decisions, std::span<const Charge> charges) {
  Verdict verdict;
  if (decisions.empty()) return verdict;
  const bool all_shadow = std::ranges::all_of(charges, &Charge::shadow);
  bool found = false;
  Nanos wait{0};
  std::uint32_t refusing = 0;
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    if (!decisions[i]) refusing |= std::uint32_t{1} << i;
    if (charges[i].shadow && !all_shadow) continue;
    if (!found || is_tighter(decisions[i], verdict.decision)) {
      verdict = {.decision = decisions[i], .tightest = i};
      found = true;
    }
    if (!charges[i].shadow) wait = std::max(wait, decisions[i].wait);
  }
  if (all_shadow) {
    verdict.decision.outcome = Outcome::allowed;
    verdict.decision.retry_after = Nanos{0};
  }
  verdict.decision.wait = verdict.decision ? wait : Nanos{0};
  verdict.refusing = refusing;
  return verdict;
}

Verdict take(std::span<const Charge> charges, Instant now, const HolderId& holder,
             std::span<Receipt> receipts, std::span<Decision> each) {
  convert_states(charges, now);
  const Decided decided(charges, now, holder);
  for (std::size_t i = 0; i < charges.size(); ++i) {
    Receipt* receipt = i < receipts.size() ? &receipts[i] : nullptr;
    if (is_charged(decided, charges[i], i)) {
      commit(charges[i], decided.evaluations[i], now, holder, receipt);
    } else if (changes_by_refusal(charges)) {
      state_of(charges[i]) = decided.evaluations[i].next;
    } else if (decided.admitted && receipt != nullptr) {
      *receipt = {};
    }
  }
  return verdict_on(charges, decided.evaluations, now, each);
}

Verdict peek(std::span<const Charge> charges, Instant now, const HolderId& holder,
             std::span<Decision> each) {
  convert_states(charges, now);
  return verdict_on(charges, Decided(charges, now, holder).evaluations, now, each);
}

Verdict settle(std::span<const Charge> charges, Instant now, std::span<Receipt> receipts,
               std::span<Decision> each) {
  assert(receipts.size() == charges.size());
  convert_states(charges, now);
  for (std::size_t i = 0; i < charges.size(); ++i) {
    const auto* bucket = std::get_if<Bucket>(charges[i].limit);
    if (bucket != nullptr)
      receipts[i] = receipt_under_current_limit(*bucket, receipts[i], now, charges[i].history);
  }
  FixedVector<std::pair<std::size_t, Decision>, kMaxLimits> refusals;
  for (std::size_t i = 0; i < charges.size(); ++i) {
    if (const auto refusal = refusal_of(charges[i], now)) refusals.emplace_back(i, *refusal);
    settle_one(charges[i], now, receipts[i]);
  }
  Verdict verdict = verdict_on(charges, {}, now, each);
  for (const auto& [i, refusal] : refusals) {
    verdict.refusing |= std::uint32_t{1} << i;
    if (i < each.size() && !is_log(charges[i])) each[i] = refusal;
  }
  return verdict;
}

Instant rest_at(const Charge& charge, Instant now) {
  return std::visit(Overloaded{
                        [&](const SlidingLog& l) { return rest_at(l, log_of(charge)); },
                        [&](const Concurrency&) { return rest_at(holders_of(charge)); },
                        [&](const auto& l) { return rest_at(l, state_of(charge), now); },
                    },
                    *charge.limit);
}

void reset(const Memory& memory) {
  std::visit(Overloaded{[](State* state) { *state = {}; }, [](AdmissionLog log) { log.clear(); },
                        [](Holders holders) { holders.clear(); }},
             memory);
}

bool leave(std::span<const Charge> charges, Instant now, const HolderId& holder) {
  bool left = false;
  for (const Charge& charge : charges) {
    if (!is_concurrency(charge)) continue;
    left = core::leave(holders_of(charge), salted_id(charge, holder), now) || left;
  }
  return left;
}

}  // namespace weir::core
