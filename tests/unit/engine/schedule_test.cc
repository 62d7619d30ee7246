// Other limits at other hours: usage goes on, and the first who comes changes the rules.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "world.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

// Sixty an hour by night, 600 from nine to six.
constexpr std::string_view kOffice =
    "p: { limits: [ { limit: 60/h, name: night } ], schedule: [ { hours: '09:00-18:00', "
    "limits: [ { limit: 600/h, name: day } ] } ] }";
// The same under one name, so that usage goes on.
constexpr std::string_view kRate =
    "p: { limits: [ 60/h ], schedule: [ { hours: '09:00-18:00', limits: [ 600/h ] } ] }";

// The first of January 2026, on which the clock of a World stands.
Instant at(Nanos time) { return ManualClock::kStart + time; }

TEST(EngineSchedule, GivesOtherLimitsAtOtherHours) {
  World world{kOffice};
  EXPECT_EQ(world.take("p", "k").limited_by, "night");
  world.clock.set(at(9h) - 1ns);
  EXPECT_EQ(world.take("p", "k").limited_by, "night");
  world.clock.set(at(9h));
  EXPECT_EQ(world.take("p", "k").limited_by, "day");
  EXPECT_EQ(world.take("p", "k").decision.limit, 600);
  world.clock.set(at(18h) - 1ns);
  EXPECT_EQ(world.take("p", "k").limited_by, "day");
  world.clock.set(at(18h));
  EXPECT_EQ(world.take("p", "k").limited_by, "night");
}

TEST(EngineSchedule, HoldsFromTheStart) {
  ManualClock clock{at(12h)};
  Engine engine{policies(kOffice), small_on(clock)};
  EXPECT_EQ(engine.take({.policy = "p", .key = "k"}).limited_by, "day");
}

TEST(EngineSchedule, IsKnownToEveryVerb) {
  World world{kOffice};
  const Request request{.policy = "p", .key = "k"};
  int day = 9;
  const auto next_day = [&] { world.clock.set(at(std::chrono::hours{day += 24})); };
  const auto next_night = [&] { world.clock.set(at(std::chrono::hours{day + 9})); };
  next_day();
  EXPECT_EQ(world.engine.peek(request).limited_by, "day");
  next_night();
  EXPECT_EQ(world.engine.explain(request)->at(0).name, "night");
  next_day();
  EXPECT_EQ(world.engine.settle(request).limited_by, "day");
  next_night();
  EXPECT_EQ(world.engine.enter(request, "a").limited_by, "night");
  next_day();
  EXPECT_FALSE(world.engine.reset(request));
  EXPECT_EQ(world.left("p", "k"), 600);
  next_night();
  std::vector<Verdict> verdicts(1);
  world.engine.take_all({&request, 1}, verdicts);
  EXPECT_EQ(verdicts[0].limited_by, "night");
  next_day();
  Receipt receipt;
  EXPECT_EQ(world.engine.take(request, receipt).limited_by, "day");
}

// Nobody has replaced the policies.
TEST(EngineSchedule, IsNoOtherGeneration) {
  World world{kOffice};
  EXPECT_TRUE(world.take("p", "k"));
  world.clock.set(at(9h));
  EXPECT_TRUE(world.take("p", "k"));
  EXPECT_EQ(world.engine.generation(), 1u);
  world.engine.replace(policies(kOffice));
  EXPECT_EQ(world.engine.generation(), 2u);
  world.clock.set(at(18h));
  EXPECT_EQ(world.take("p", "k").limited_by, "night");
  EXPECT_EQ(world.engine.generation(), 2u);
}

// ---- Usage

TEST(EngineSchedule, KeepsWhatWasUsed) {
  World world{kRate};
  world.clock.set(at(9h) - 1min);
  EXPECT_TRUE(world.take("p", "k", 60));
  world.clock.set(at(9h));
  EXPECT_EQ(world.left("p", "k"), 541);  // one has drained by night
  EXPECT_TRUE(world.take("p", "k", 541));
  world.clock.set(at(18h) - 1s);
  EXPECT_TRUE(world.take("p", "k", 600));
  world.clock.set(at(18h));
  EXPECT_EQ(world.left("p", "k"), 0);
}

// Up to the boundary time counts at the old rate, from then on at the new one, though nobody came
// at that moment.
TEST(EngineSchedule, CountsFromTheBoundary) {
  World world{kRate};
  world.clock.set(at(9h) - 10min);
  EXPECT_TRUE(world.take("p", "k", 60));
  world.clock.set(at(9h) + 1min);  // ten by night, ten by day
  EXPECT_EQ(world.left("p", "k"), 560);
}

// Whoever comes a day later finds that each hour has counted by its own rate.
TEST(EngineSchedule, MakesUpForBoundariesThatNobodySaw) {
  World world{
      "p: { limits: [ 1/h burst 1000 ], "
      "schedule: [ { hours: '09:00-18:00', limits: [ 10/h burst 1000 ] } ] }"};
  EXPECT_TRUE(world.take("p", "k", 1000));
  world.clock.set(at(24h));
  EXPECT_EQ(world.left("p", "k"), 15 + 90);
  world.clock.set(at(36h));
  EXPECT_EQ(world.left("p", "k"), 105 + 9 + 30);
}

TEST(EngineSchedule, SurvivesAJumpOverYears) {
  World world{kOffice};
  EXPECT_TRUE(world.take("p", "k", 60));
  world.clock.set(at(24h * 3652) + 12h);
  EXPECT_EQ(world.take("p", "k", 600).decision.remaining, 0);
  EXPECT_EQ(world.take("p", "k").limited_by, "day");
  world.clock.set(Instant::max());
  EXPECT_FALSE(world.take("p", "k").limited_by.empty());
}

TEST(EngineSchedule, ReplacesTheRulesOfTheHour) {
  World world{kRate};
  world.clock.set(at(9h) - 10min);
  EXPECT_TRUE(world.take("p", "k", 60));
  world.clock.set(at(9h) + 1min);
  // The boundary was nobody's business until now, and still counts.
  world.engine.replace(policies("p: { limits: [ 6000/h ] }"));
  EXPECT_EQ(world.left("p", "k"), 5960);
}

// Limits that others have by name or period rest while they do not hold, and are not forgotten.
TEST(EngineSchedule, ComesBackToWhatWasUsed) {
  World world{
      "p: { limits: [ 1000/day ], schedule: [ { hours: '09:00-18:00', limits: [ 100/h ] } ] }"};
  EXPECT_TRUE(world.take("p", "k", 300));
  world.clock.set(at(9h));
  EXPECT_EQ(world.left("p", "k"), 100);
  world.clock.set(at(18h));
  EXPECT_EQ(world.left("p", "k"), 700);
}

TEST(EngineSchedule, LeavesOtherPoliciesAlone) {
  World world{std::string{kOffice} + ", q: { limits: [ 10/h ], overrides: { alice: 20/h } }"};
  EXPECT_TRUE(world.take("q", "k", 5));
  EXPECT_TRUE(world.take("q", "alice", 5));
  world.clock.set(at(9h));
  EXPECT_EQ(world.take("p", "k").limited_by, "day");
  EXPECT_EQ(world.left("q", "k"), 10);
  world.clock.set(at(9h) + 1h);
  EXPECT_EQ(world.left("q", "alice"), 20);
}

TEST(EngineSchedule, IsBeatenByOverrides) {
  World world{
      "p: { limits: [ 60/h ], overrides: { alice: { limit: 5/h, name: hers } }, "
      "schedule: [ { hours: '09:00-18:00', limits: [ 600/h ] } ] }"};
  EXPECT_TRUE(world.take("p", "alice", 5));
  world.clock.set(at(9h));
  EXPECT_EQ(world.take("p", "alice").limited_by, "hers");
  EXPECT_EQ(world.take("p", "bob").decision.limit, 600);
}

TEST(EngineSchedule, AppliesTheSettingsOfThePolicy) {
  World world{
      "p: { limits: [ 1/h ], shadow: true, "
      "schedule: [ { hours: '09:00-18:00', limits: [ 2/h ] } ] }"};
  world.clock.set(at(9h));
  EXPECT_EQ(world.admits("p", "k", 5), 5);
}

// ---- Clocks

// NTP may step a clock back by a moment: the rules that have begun go on, and a key at rest is not
// refused for it.
TEST(EngineSchedule, GoesOnWhenTheClockStepsBackALittle) {
  World world{kOffice};
  EXPECT_TRUE(world.take("p", "k"));
  world.clock.set(at(9h));
  EXPECT_EQ(world.take("p", "k").limited_by, "day");
  for (int i = 0; i < 10; ++i) {
    world.clock.set(at(9h) - 30s);
    EXPECT_EQ(world.take("p", "k").limited_by, "day");
    world.clock.set(at(9h) + 1s);
    EXPECT_EQ(world.take("p", "k").limited_by, "day");
  }
}

TEST(EngineSchedule, KeepsKeysAtRestWhenTheClockStepsBackALittle) {
  World world{"p: { limits: [ 10/s ], schedule: [ { hours: '09:00-18:00', limits: [ 20/s ] } ] }"};
  EXPECT_TRUE(world.take("p", "k", 10));
  world.clock.set(at(9h));
  EXPECT_TRUE(world.take("p", "other"));  // the rules of the day begin
  world.clock.set(at(9h) - 30s);
  EXPECT_EQ(world.left("p", "k"), 20);
}

// A clock that was wrong by hours and is put right brings back the limits of the time it is.
TEST(EngineSchedule, FollowsAClockThatIsPutBack) {
  World world{kOffice};
  world.clock.set(at(24h * 365) + 12h);
  EXPECT_EQ(world.take("p", "k").limited_by, "day");
  world.clock.set(at(2h));
  EXPECT_EQ(world.take("p", "k").limited_by, "night");
  world.clock.set(at(9h));
  EXPECT_EQ(world.take("p", "k").limited_by, "day");
}

// ---- Threads

// However threads meet at the boundaries, nothing is admitted twice and nothing lost: a window of a
// year has the same usage by day and by night.
TEST(EngineSchedule, IsChangedByOneOfManyThreads) {
  World world{
      "p: { limits: [ 1000000/year ], "
      "schedule: [ { hours: '09:00-18:00', limits: [ 2000000/year ] } ] }"};
  constexpr int threads = 3;
  constexpr int calls = 2000;
  std::atomic<int> running{threads};
  std::atomic<int> admitted{0};
  {
    std::vector<std::jthread> takers;
    for (int i = 0; i < threads; ++i) {
      takers.emplace_back([&] {
        for (int call = 0; call < calls; ++call) {
          if (world.take("p", "k")) ++admitted;
        }
        --running;
      });
    }
    for (int hour = 0; running > 0; ++hour) {
      world.clock.set(at(std::chrono::hours{hour % 1000 * 3}));
      std::this_thread::yield();
    }
  }
  EXPECT_EQ(admitted, threads * calls);
  world.clock.set(at(24h * 200));
  EXPECT_EQ(world.left("p", "k"), 1'000'000 - threads * calls);
}

}  // namespace
}  // namespace weir
