// A tenant's plan has two limits, a rate and a daily quota: a call takes from both or from neither,
// and a refusal names the limit.

#include <weir/clock.h>
#include <weir/engine.h>

#include <chrono>
#include <iostream>

using namespace std::chrono_literals;

constexpr auto kPlans = R"(
policies:
  starter:
    limits:
      - { limit: 100/s burst 100, name: rate }
      - { limit: 250/day in Asia/Shanghai, name: quota }
)";

// Sends `calls` and prints the outcome.
void send(weir::Engine& engine, int calls) {
  int passed = 0;
  weir::Verdict last;
  for (int i = 0; i < calls; ++i) {
    last = engine.take({.policy = "starter", .key = "tenant-7"});
    if (last) ++passed;
  }
  std::cout << passed << " of " << calls << " passed; ";
  if (last) {
    std::cout << "left of the " << last.limited_by << ": " << last.decision.remaining << '\n';
  } else {
    const std::chrono::duration<double> seconds = last.decision.retry_after;
    std::cout << "then the " << last.limited_by << " said: again in " << seconds.count() << " s\n";
  }
}

int main() {
  const auto plans = weir::PolicySet::parse(kPlans);
  if (!plans) {
    std::cerr << plans.error().message;
    return 1;
  }
  weir::ManualClock clock;  // midnight in London, eight in the morning in Shanghai
  weir::Engine engine{*plans, {.clock = &clock}};
  send(engine, 120);  // the twenty refused calls cost nothing of the daily quota
  clock.advance(1s);
  send(engine, 80);
  clock.advance(1s);
  send(engine, 80);
  clock.advance(16h);
  send(engine, 80);
}
