// One call, and as many tokens as it will use, which nobody knows before: an estimate is taken, and
// settled by its receipt when the real number is known.

#include <weir/clock.h>
#include <weir/engine.h>

#include <chrono>
#include <iostream>

using namespace std::chrono_literals;

constexpr auto kPolicies = R"(
policies:
  llm:
    limits:
      - { limit: 60/min, cost: 1, name: calls }
      - { limit: 10000 per 1min, cost: permits, name: tokens }
)";

constexpr weir::Permits kEstimate = 4000;

weir::Request ann_asks_for(weir::Permits tokens) {
  return {.policy = "llm", .key = "ann", .permits = tokens};
}

// The tokens that are left, asked without taking any.
weir::Permits tokens_left(weir::Engine& engine) {
  const auto limits = engine.explain(ann_asks_for(1));
  return (*limits)[1].decision.remaining;
}

void prompt(weir::Engine& engine, weir::Permits used) {
  weir::Receipt receipt;
  const weir::Verdict verdict = engine.take(ann_asks_for(kEstimate), receipt);
  if (!verdict) {
    const std::chrono::duration<double> seconds = verdict.decision.retry_after;
    std::cout << "too many " << verdict.limited_by << ", again in " << seconds.count() << " s\n";
    return;
  }
  std::cout << "took " << kEstimate << ", " << tokens_left(engine) << " left; ";
  // The model answers, and says what it has used: less than the estimate comes back, more is owed.
  (void)engine.settle(ann_asks_for(used - kEstimate), receipt);
  std::cout << "used " << used << ", " << tokens_left(engine) << " left\n";
}

int main() {
  weir::ManualClock clock;  // so that this prints the same each time; leave it out for real time
  weir::Engine engine{*weir::PolicySet::parse(kPolicies), {.clock = &clock}};
  prompt(engine, 1500);
  prompt(engine, 6500);
  prompt(engine, 100);
  clock.advance(12s);
  prompt(engine, 100);
}
