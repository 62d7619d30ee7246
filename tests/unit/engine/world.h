#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "weir/engine.h"

namespace weir {

// Parses policies that must be valid: "api: { limits: [ 10/s ] }, login: …".
inline PolicySet policies(std::string_view text) {
  auto set = PolicySet::parse("policies: { " + std::string{text} + " }");
  if (!set) throw std::invalid_argument(set.error().message);
  return *std::move(set);
}

// A small table: tests make many engines.
inline EngineOptions small_on(const Clock& clock) {
  return {.memory = {.bytes = std::size_t{1} << 20}, .clock = &clock};
}

// The remaining permits under each limit of a policy.
inline std::vector<Permits> all_left(Engine& engine, const Request& request) {
  const auto states = engine.explain(request);
  if (!states) throw std::invalid_argument(states.error().message);
  std::vector<Permits> all;
  for (const LimitState& state : *states) all.push_back(state.decision.remaining);
  return all;
}

// An engine with a manual clock.
struct World {
  explicit World(std::string_view text) : engine(policies(text), small_on(clock)) {}

  Verdict take(std::string_view policy, std::string_view key, Permits permits = 1) {
    return engine.take({.policy = policy, .key = key, .permits = permits});
  }
  // The number of `n` calls that pass.
  int admits(std::string_view policy, std::string_view key, int n) {
    int admitted = 0;
    for (int i = 0; i < n; ++i) admitted += take(policy, key) ? 1 : 0;
    return admitted;
  }
  // The remaining permits under the tightest limit.
  Permits left(std::string_view policy, std::string_view key) {
    return engine.peek({.policy = policy, .key = key}).decision.remaining;
  }
  std::vector<Permits> all_left(const Request& request) { return weir::all_left(engine, request); }
  std::vector<Permits> all_left(std::string_view policy, std::string_view key) {
    return all_left({.policy = policy, .key = key});
  }

  ManualClock clock;
  Engine engine;
};

// A policy "p" with these limits and other fields.
inline std::string only(std::string_view limits, std::string_view more = {}) {
  return "p: { limits: [ " + std::string{limits} + " ], " + std::string{more} + " }";
}

// An engine with the policy "p" only. The default key is "k".
struct OnePolicy : World {
  explicit OnePolicy(std::string_view limits, std::string_view more = {})
      : World(only(limits, more)) {}

  void become(std::string_view limits, std::string_view more = {}) {
    engine.replace(policies(only(limits, more)));
  }

  Verdict take(Permits permits = 1) { return take("k", permits); }
  Verdict take(std::string_view key, Permits permits = 1) { return World::take("p", key, permits); }
  Verdict enter(std::string_view holder, std::string_view key = "k") {
    return engine.enter({.policy = "p", .key = key}, holder);
  }
  bool leave(std::string_view holder) { return engine.leave({.policy = "p", .key = "k"}, holder); }
  int admits(int n) { return admits("k", n); }
  int admits(std::string_view key, int n) { return World::admits("p", key, n); }
  Permits left(std::string_view key = "k") { return World::left("p", key); }
  using World::all_left;
  std::vector<Permits> all_left(std::string_view key = "k") { return World::all_left("p", key); }
};

// A limit of ten under each algorithm.
inline constexpr const char* kTens[] = {"10/s",
                                        "7/s burst 10",
                                        "10/h window",
                                        "10/h window from first",
                                        "10/h sliding",
                                        "10/h sliding exact",
                                        "10/day",
                                        "10/s queue 9 nodelay",
                                        "{ limit: 10/s queue 9 nodelay, like: nginx }"};

}  // namespace weir
