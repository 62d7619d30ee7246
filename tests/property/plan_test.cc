// Several limits in one decision, compared with each of them alone.

#include "core/plan.h"

#include <algorithm>
#include <optional>

#include "generators.h"
#include "property.h"
#include "subject.h"

namespace weir::core {
namespace {

struct Part {
  Subject subject;
  bool shadow;
};

struct Plan {
  std::vector<Part> parts;

  std::vector<Charge> charges(const std::vector<Ask>& asks) {
    std::vector<Charge> all;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      all.push_back(parts[i].subject.charge(asks[i], parts[i].shadow));
    }
    return all;
  }
  std::vector<std::string> bytes() const {
    std::vector<std::string> all;
    for (const Part& part : parts) all.push_back(part.subject.bytes());
    return all;
  }
};

bool is_room(const Part& part) { return std::holds_alternative<Concurrency>(part.subject.limit()); }

Plan any_plan() {
  Plan plan;
  const int size = *rc::gen::inRange(1, 5);
  for (int i = 0; i < size; ++i) {
    const Limit limit = (*any_limit()).limit;
    plan.parts.push_back({Subject(limit), *rc::gen::inRange(0, 4) == 0});
  }
  return plan;
}

// The answer and the effect of each part alone.
struct SingleOutcomes {
  std::vector<Decision> decisions;
  std::vector<std::string> bytes;
};

SingleOutcomes ask_each(const Plan& plan, Instant now, const std::vector<Ask>& asks,
                        std::uint64_t who) {
  SingleOutcomes alone;
  for (std::size_t i = 0; i < plan.parts.size(); ++i) {
    Subject tried = plan.parts[i].subject;
    alone.decisions.push_back(tried.take(now, asks[i], who));
    alone.bytes.push_back(tried.bytes());
  }
  return alone;
}

// True if `who` holds its permits in every concurrent limit. Shadow limits count if there are no
// others.
bool holds_all(Plan plan, Instant now, std::uint64_t who) {
  const bool only_shadows = std::ranges::none_of(
      plan.parts, [](const Part& part) { return is_room(part) && !part.shadow; });
  bool any = false;
  for (Part& part : plan.parts) {
    if (!is_room(part) || (part.shadow && !only_shadows)) continue;
    any = true;
    const Memory memory = part.subject.charge({}).memory;
    if (!holds(std::get<Holders>(memory), {.low = who}, now)) return false;
  }
  return any;
}

// The expected answer: the refusal with the longest retry, else the smallest remaining; the first
// among equals.
std::size_t tightest_of(const std::vector<Decision>& decisions, const std::vector<bool>& counts) {
  std::optional<std::size_t> best;
  const auto never = [](const Decision& d) { return d.outcome == Outcome::impossible; };
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    if (!counts[i]) continue;
    if (!best) {
      best = i;
      continue;
    }
    const Decision& a = decisions[i];
    const Decision& b = decisions[*best];
    const bool longer = !a && !b && !never(b) && (never(a) || a.retry_after > b.retry_after);
    const bool refuses = !a && b;
    const bool less = a && b && a.remaining < b.remaining;
    if (refuses || longer || less) best = i;
  }
  return *best;
}

struct Scene {
  Plan plan = any_plan();
  Instant now = start();
  Decision last;
  std::vector<Ask> asks;
  std::uint64_t who = 0;

  // The next arrival; its cost fits each limit in a different way.
  void next(const Step& step) {
    const std::size_t pace = *rc::gen::inRange<std::size_t>(0, plan.parts.size());
    now = moved(step, plan.parts[pace].subject.limit(), now, last);
    asks.clear();
    for (const Part& part : plan.parts) asks.push_back(ask_of(step, part.subject.limit()));
    who = *rc::gen::inRange<std::uint64_t>(1, 6);
  }
};

// A call that one limit refuses is charged by none; an admitted call is charged by all, exactly as
// by each alone.
TEST(Plan, ChargesAllOrNone) {
  check(
      [] {
        Scene scene;
        for (const Step& step : *steps()) {
          scene.next(step);
          if (holds_all(scene.plan, scene.now, scene.who)) continue;
          const SingleOutcomes alone = ask_each(scene.plan, scene.now, scene.asks, scene.who);
          bool admitted = true;
          for (std::size_t i = 0; i < alone.decisions.size(); ++i) {
            admitted = admitted && (alone.decisions[i] || scene.plan.parts[i].shadow);
          }
          const auto before = scene.plan.bytes();
          const auto charges = scene.plan.charges(scene.asks);
          const Verdict verdict = take(charges, scene.now, {.low = scene.who});
          RC_ASSERT(static_cast<bool>(verdict.decision) == admitted);
          RC_ASSERT(scene.plan.bytes() == (admitted ? alone.bytes : before));
          scene.last = verdict.decision;
        }
      },
      1200);
}

// The answer is that of the tightest limit, with the longest wait. Shadow limits do not determine
// it unless there are no others.
TEST(Plan, AnswersForTheTightestLimitWithTheLongestWait) {
  check(
      [] {
        Scene scene;
        for (const Step& step : *steps()) {
          scene.next(step);
          if (holds_all(scene.plan, scene.now, scene.who)) continue;
          const auto charges = scene.plan.charges(scene.asks);
          const Plan before = scene.plan;
          const Verdict verdict = take(charges, scene.now, {.low = scene.who});
          scene.last = verdict.decision;

          const bool none_speaks =
              std::ranges::all_of(before.parts, [](const Part& part) { return part.shadow; });
          std::vector<Decision> answers;
          std::vector<bool> counts;
          Nanos longest{0};
          for (std::size_t i = 0; i < before.parts.size(); ++i) {
            Subject alone = before.parts[i].subject;
            answers.push_back(verdict.decision ? alone.take(scene.now, scene.asks[i], scene.who)
                                               : alone.peek(scene.now, scene.asks[i], scene.who));
            counts.push_back(none_speaks || !before.parts[i].shadow);
            if (!before.parts[i].shadow) longest = std::max(longest, answers.back().wait);
          }
          const std::size_t tightest = tightest_of(answers, counts);
          RC_ASSERT(verdict.tightest == tightest);
          Decision expected = answers[tightest];
          expected.wait = verdict.decision ? longest : Nanos{0};
          if (none_speaks) {
            expected.outcome = Outcome::allowed;
            expected.retry_after = Nanos{0};
          }
          RC_ASSERT(verdict.decision == expected);
        }
      },
      1200);
}

// Peek returns the verdict of a take and changes nothing.
TEST(Plan, PeeksWithoutATrace) {
  check([] {
    Scene scene;
    for (const Step& step : *steps()) {
      scene.next(step);
      const auto before = scene.plan.bytes();
      const auto charges = scene.plan.charges(scene.asks);
      const Verdict peeked = peek(charges, scene.now, {.low = scene.who});
      RC_ASSERT(scene.plan.bytes() == before);
      const Verdict taken = take(charges, scene.now, {.low = scene.who});
      RC_ASSERT(peeked.decision.outcome == taken.decision.outcome);
      RC_ASSERT(peeked.decision.wait == taken.decision.wait);
      if (!taken.decision) RC_ASSERT(peeked.decision == taken.decision);
      if (!taken.decision) RC_ASSERT(peeked.tightest == taken.tightest);
      scene.last = taken.decision;
    }
  });
}

// A holder that enters again only renews its lease.
TEST(Plan, ChargesNothingForARenewal) {
  check([] {
    Scene scene;
    scene.plan.parts.push_back({Subject((*concurrency()).limit), false});
    for (const Step& step : *steps()) {
      scene.next(step);
      const bool inside = holds_all(scene.plan, scene.now, scene.who);
      const auto before = scene.plan.bytes();
      const auto charges = scene.plan.charges(scene.asks);
      scene.last = take(charges, scene.now, {.low = scene.who}).decision;
      if (!inside) continue;
      RC_ASSERT(static_cast<bool>(scene.last));
      const auto after = scene.plan.bytes();
      for (std::size_t i = 0; i < after.size(); ++i) {
        if (!is_room(scene.plan.parts[i])) RC_ASSERT(after[i] == before[i]);
      }
      RC_ASSERT(holds_all(scene.plan, scene.now, scene.who));
    }
  });
}

// An admitted call returns a receipt for each limit, with which all of it can be undone at once.
TEST(Plan, IsUndoneByItsReceipts) {
  check([] {
    Scene scene;
    std::erase_if(scene.plan.parts, [](const Part& part) { return is_room(part); });
    RC_PRE(!scene.plan.parts.empty());
    for (const Step& step : *steps({.steps_back = false})) {
      scene.next(step);
      Plan tried = scene.plan;
      auto charges = tried.charges(scene.asks);
      std::vector<Receipt> receipts(charges.size());
      const bool took = static_cast<bool>(take(charges, scene.now, {}, receipts).decision);
      if (took) {
        for (std::size_t i = 0; i < charges.size(); ++i) charges[i].ask.cost = -receipts[i].taken;
        (void)settle(charges, scene.now, receipts);
      }
      for (std::size_t i = 0; i < charges.size(); ++i) {
        const Decision before = scene.plan.parts[i].subject.peek(scene.now, {});
        RC_ASSERT(tried.parts[i].subject.peek(scene.now, {}) == before);
        if (took) RC_ASSERT(receipts[i].taken == 0);
      }
      scene.last = take(scene.plan.charges(scene.asks), scene.now).decision;
    }
  });
}

}  // namespace
}  // namespace weir::core
