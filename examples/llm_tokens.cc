// A call whose number of tokens is unknown before: takes an estimate, and settles it by its receipt
// when the number is known.

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

// The remaining tokens, without taking any.
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
  // The model answers and reports its usage. Less than the estimate is refunded, more is owed.
  (void)engine.settle(ann_asks_for(used - kEstimate), receipt);
  std::cout << "used " << used << ", " << tokens_left(engine) << " left\n";
}

int main() {
  weir::ManualClock clock;  // for reproducible output; leave it out for real time
  weir::Engine engine{*weir::PolicySet::parse(kPolicies), {.clock = &clock}};
  prompt(engine, 1500);
  prompt(engine, 6500);
  prompt(engine, 100);
  clock.advance(12s);
  prompt(engine, 100);
}
