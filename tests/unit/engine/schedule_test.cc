// Schedules: limits change by the hour, usage is kept, and the first call after a boundary replaces
// the rules.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "world.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

// 60 an hour by night, 600 an hour from 9:00 to 18:00.
constexpr std::string_view kOffice =
    "p: { limits: [ { limit: 60/h, name: night } ], schedule: [ { hours: '09:00-18:00', "
    "limits: [ { limit: 600/h, name: day } ] } ] }";
// The same with a name, so that usage continues.
constexpr std::string_view kRate =
    "p: { limits: [ 60/h ], schedule: [ { hours: '09:00-18:00', limits: [ 600/h ] } ] }";

// 1 January 2026, the start time of a World's clock.
Instant at(Nanos time) { return ManualClock::kStart + time; }

TEST(EngineSchedule, ChangesLimitsByTheHour) {
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

TEST(EngineSchedule, AppliesFromTheStart) {
  ManualClock clock{at(12h)};
  Engine engine{policies(kOffice), small_on(clock)};
  EXPECT_EQ(engine.take({.policy = "p", .key = "k"}).limited_by, "day");
}

TEST(EngineSchedule, AppliesToEveryOperation) {
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

// The generation counts replacements of the policies only.
TEST(EngineSchedule, KeepsTheGeneration) {
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

TEST(EngineSchedule, KeepsUsage) {
  World world{kRate};
  world.clock.set(at(9h) - 1min);
  EXPECT_TRUE(world.take("p", "k", 60));
  world.clock.set(at(9h));
  EXPECT_EQ(world.left("p", "k"), 541);  // one drained by night
  EXPECT_TRUE(world.take("p", "k", 541));
  world.clock.set(at(18h) - 1s);
  EXPECT_TRUE(world.take("p", "k", 600));
  world.clock.set(at(18h));
  EXPECT_EQ(world.left("p", "k"), 0);
}

// The old rate applies until the boundary and the new one after it, without a call at that time.
TEST(EngineSchedule, ChangesTheRateAtTheBoundary) {
  World world{kRate};
  world.clock.set(at(9h) - 10min);
  EXPECT_TRUE(world.take("p", "k", 60));
  world.clock.set(at(9h) + 1min);  // ten by night, ten by day
  EXPECT_EQ(world.left("p", "k"), 560);
}

// A day later, each hour has counted at its own rate.
TEST(EngineSchedule, AppliesBoundariesWithoutCallsInBetween) {
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

TEST(EngineSchedule, IsReplacedWithThePolicies) {
  World world{kRate};
  world.clock.set(at(9h) - 10min);
  EXPECT_TRUE(world.take("p", "k", 60));
  world.clock.set(at(9h) + 1min);
  // No call came at the boundary, and it still counts.
  world.engine.replace(policies("p: { limits: [ 6000/h ] }"));
  EXPECT_EQ(world.left("p", "k"), 5960);
}

// Limits that do not apply at an hour keep their usage.
TEST(EngineSchedule, KeepsTheUsageOfInactiveLimits) {
  World world{
      "p: { limits: [ 1000/day ], schedule: [ { hours: '09:00-18:00', limits: [ 100/h ] } ] }"};
  EXPECT_TRUE(world.take("p", "k", 300));
  world.clock.set(at(9h));
  EXPECT_EQ(world.left("p", "k"), 100);
  world.clock.set(at(18h));
  EXPECT_EQ(world.left("p", "k"), 700);
}

TEST(EngineSchedule, DoesNotAffectOtherPolicies) {
  World world{std::string{kOffice} + ", q: { limits: [ 10/h ], overrides: { alice: 20/h } }"};
  EXPECT_TRUE(world.take("q", "k", 5));
  EXPECT_TRUE(world.take("q", "alice", 5));
  world.clock.set(at(9h));
  EXPECT_EQ(world.take("p", "k").limited_by, "day");
  EXPECT_EQ(world.left("q", "k"), 10);
  world.clock.set(at(9h) + 1h);
  EXPECT_EQ(world.left("q", "alice"), 20);
}

TEST(EngineSchedule, YieldsToOverrides) {
  World world{
      "p: { limits: [ 60/h ], overrides: { alice: { limit: 5/h, name: hers } }, "
      "schedule: [ { hours: '09:00-18:00', limits: [ 600/h ] } ] }"};
  EXPECT_TRUE(world.take("p", "alice", 5));
  world.clock.set(at(9h));
  EXPECT_EQ(world.take("p", "alice").limited_by, "hers");
  EXPECT_EQ(world.take("p", "bob").decision.limit, 600);
}

TEST(EngineSchedule, KeepsTheSettingsOfThePolicy) {
  World world{
      "p: { limits: [ 1/h ], shadow: true, "
      "schedule: [ { hours: '09:00-18:00', limits: [ 2/h ] } ] }"};
  world.clock.set(at(9h));
  EXPECT_EQ(world.admits("p", "k", 5), 5);
}

// ---- Clocks

// NTP may step the clock back a little: the new rules stay, and keys at rest are not refused.
TEST(EngineSchedule, KeepsTheNewRulesWhenTheClockStepsBackALittle) {
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

// A clock that is set back by hours restores the limits of that hour.
TEST(EngineSchedule, FollowsAClockThatIsSetBack) {
  World world{kOffice};
  world.clock.set(at(24h * 365) + 12h);
  EXPECT_EQ(world.take("p", "k").limited_by, "day");
  world.clock.set(at(2h));
  EXPECT_EQ(world.take("p", "k").limited_by, "night");
  world.clock.set(at(9h));
  EXPECT_EQ(world.take("p", "k").limited_by, "day");
}

// ---- Threads

// Threads that meet at a boundary admit nothing twice and lose nothing. A window of a year has the
// same usage by day and by night.
TEST(EngineSchedule, IsAppliedOnceByManyThreads) {
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
