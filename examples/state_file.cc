// Usage survives a restart, and kill -9: an Engine with a state file.

#include <weir/clock.h>
#include <weir/engine.h>

#include <cstdio>
#include <iostream>

constexpr auto kPolicies = "policies: { export: { limits: [ 3 per 24h window ] } }";
constexpr auto kStateFile = "state_file.example";

weir::Result<weir::Engine, weir::Error> start(const weir::Clock& clock) {
  const weir::MemoryOptions memory{.bytes = 1 << 20, .state_file = kStateFile};
  auto policies = weir::PolicySet::parse(kPolicies);
  auto engine = weir::Engine::open(*policies, {.memory = memory, .clock = &clock});
  if (!engine) std::cerr << engine.error().message << '\n';
  std::cout << (engine ? engine->opening_note() : "cannot start") << '\n';
  return engine;
}

void run_export(weir::Engine& engine) {
  const weir::Verdict verdict = engine.take({.policy = "export", .key = "ann"});
  std::cout << (verdict ? "  exported, left: " : "  refused, left: ") << verdict.decision.remaining
            << '\n';
}

int main() {
  const weir::ManualClock clock;  // stands still: all of this is on one day
  std::remove(kStateFile);
  {
    auto engine = start(clock);
    run_export(*engine);
    run_export(*engine);
    auto second = start(clock);  // refused while the first one has the file open
  }
  auto engine = start(clock);
  run_export(*engine);
  run_export(*engine);
  std::remove(kStateFile);
}
