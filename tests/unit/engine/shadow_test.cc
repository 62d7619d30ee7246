// Shadow limits decide and count, and never refuse.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

TEST(ShadowLimit, NeverRefuses) {
  for (const char* limit : {"1/h", "1/h window", "1/h sliding", "1/h sliding exact", "1/day",
                            "1/h queue 0", "1/h smooth"}) {
    World world{"api: { limits: [ 10/h, { limit: " + std::string{limit} + ", shadow: true } ] }"};
    EXPECT_EQ(world.admits("api", "alice", 20), 10) << limit;
  }
}

// Verdict::refusing tells what the limit would do if it were enforced.
TEST(ShadowLimit, ReportsThatItWouldRefuse) {
  World world{
      "api: { limits: [ { limit: 2/h, shadow: true }, 4/h, { limit: 3/h, shadow: true } ] }"};
  std::vector<std::uint32_t> refusing;
  for (int i = 0; i < 5; ++i) refusing.push_back(world.take("api", "alice").refusing);
  EXPECT_THAT(refusing, ElementsAre(0u, 0u, 0b001u, 0b101u, 0b111u));
  EXPECT_FALSE(world.take("api", "alice"));
}

TEST(ShadowLimit, IsNotChargedForRefusedCalls) {
  World world{"api: { limits: [ { limit: 5/h, shadow: true }, 2/h ] }"};
  EXPECT_EQ(world.admits("api", "alice", 20), 2);
  EXPECT_THAT(world.all_left("api", "alice"), ElementsAre(3, 0));
}

// It counts only what it would admit: no debt accumulates.
TEST(ShadowLimit, IsNotChargedForCallsItWouldRefuse) {
  World world{"api: { limits: [ { limit: 60/h burst 2, shadow: true }, 1000/h ] }"};
  EXPECT_EQ(world.admits("api", "alice", 100), 100);
  EXPECT_THAT(world.all_left("api", "alice"), ElementsAre(0, 900));
  world.clock.advance(1min);
  EXPECT_EQ(world.all_left("api", "alice")[0], 1);
}

TEST(ShadowLimit, IsNeverTheTightestBesideOthers) {
  World world{"api: { limits: [ { limit: 2/h, shadow: true }, { limit: 5/h, name: real } ] }"};
  EXPECT_EQ(world.take("api", "alice").limited_by, "real");
  EXPECT_EQ(world.take("api", "alice").decision.remaining, 3);
  EXPECT_EQ(world.admits("api", "alice", 5), 3);
  const Verdict refused = world.take("api", "alice");
  EXPECT_EQ(refused.limited_by, "real");
  EXPECT_EQ(refused.decision.limit, 5);
}

TEST(ShadowLimit, CausesNoWaitAndNoImpossibleVerdict) {
  World world{
      "api: { limits: [ { limit: 1/s queue 5, shadow: true }, 9/s, { limit: 2/s, shadow: true } ] "
      "}"};
  EXPECT_TRUE(world.take("api", "alice"));
  EXPECT_EQ(world.take("api", "alice").decision.wait, 0s);
  const Verdict verdict = world.take("api", "alice", 7);
  EXPECT_TRUE(verdict);
  EXPECT_EQ(verdict.refusing, 0b101u);
}

// A policy of shadow limits allows everything and reports what it would refuse.
TEST(ShadowLimit, CanBeTheOnlyKindOfAPolicy) {
  World world{
      "api: { limits: [ { limit: 2/h, name: hour }, { limit: 1/min, name: minute } ], "
      "shadow: true }"};
  const Verdict first = world.take("api", "alice");
  EXPECT_EQ(first.refusing, 0u);
  EXPECT_EQ(first.limited_by, "minute");
  EXPECT_EQ(first.decision, (Decision{.limit = 1, .remaining = 0, .reset_after = 1min}));
  const Verdict second = world.take("api", "alice");
  EXPECT_TRUE(second);
  EXPECT_EQ(second.refusing, 0b10u);
  EXPECT_EQ(second.limited_by, "minute");
  EXPECT_EQ(second.decision.retry_after, 0s);
  EXPECT_EQ(second.decision.wait, 0s);
  // They do not affect each other: the hour counted both calls.
  EXPECT_THAT(world.all_left("api", "alice"), ElementsAre(0, 0));
}

TEST(ShadowLimit, CanBeAConcurrencyLimit) {
  World world{"report: { limits: [ 2 concurrent, { limit: 1 concurrent, shadow: true } ] }"};
  const Request request{.policy = "report", .key = "k"};
  EXPECT_EQ(world.engine.enter(request, "a").refusing, 0u);
  const Verdict second = world.engine.enter(request, "b");
  EXPECT_TRUE(second);
  EXPECT_EQ(second.refusing, 0b10u);
  EXPECT_FALSE(world.engine.enter(request, "c"));
  EXPECT_TRUE(world.engine.enter(request, "b"));  // renewed
  EXPECT_TRUE(world.engine.leave(request, "b"));
  EXPECT_TRUE(world.engine.leave(request, "a"));
  EXPECT_THAT(world.all_left("report", "k"), ElementsAre(2, 1));
}

TEST(ShadowLimit, KeepsItsCountWhenItBecomesEnforced) {
  World world{"api: { limits: [ { limit: 5/h, shadow: true } ] }"};
  EXPECT_EQ(world.admits("api", "alice", 3), 3);
  world.engine.replace(policies("api: { limits: [ 5/h ] }"));
  EXPECT_EQ(world.admits("api", "alice", 9), 2);
}

}  // namespace
}  // namespace weir
