// Several limits in one decision: all or none are charged, and the tightest one is reported.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

// One limit of each algorithm, with much room.
constexpr std::string_view kRoomy =
    "50/s burst 50, 50/h window, 50/h window from first, 50/h sliding, 50/h sliding exact, "
    "50/day, 50/s queue 49 nodelay, { limit: 50/s queue 49 nodelay, like: nginx }";

TEST(EngineDecision, ChecksEveryLimitOfThePolicy) {
  World world{"api: { limits: [ 10/s, 12/min, 13/h ] }"};
  EXPECT_EQ(world.admits("api", "alice", 20), 10);
  world.clock.advance(1s);
  EXPECT_EQ(world.admits("api", "alice", 20), 2);
  world.clock.advance(1min);
  EXPECT_EQ(world.admits("api", "alice", 20), 1);
}

// A refusal by any limit, at any position, leaves the others as they were.
TEST(EngineDecision, ChargesNoLimitWhenOneRefuses) {
  const std::string roomy{kRoomy};
  for (const std::string& limits :
       {"2/h, " + roomy, roomy + ", 2/h", "50/h, 2/h sliding exact, " + roomy, roomy + ", 2/day",
        "{ limit: 2/h window, cost: 1 }, " + roomy}) {
    World world{"api: { limits: [ " + limits + " ] }"};
    EXPECT_EQ(world.admits("api", "alice", 2), 2);
    const auto before = world.all_left("api", "alice");
    EXPECT_EQ(world.admits("api", "alice", 10), 0);
    EXPECT_EQ(world.all_left("api", "alice"), before) << limits;
  }
}

TEST(EngineDecision, ChargesEveryKindOfLimitAlike) {
  World world{"api: { limits: [ " + std::string{kRoomy} + " ] }"};
  EXPECT_TRUE(world.take("api", "alice", 20));
  EXPECT_THAT(world.all_left("api", "alice"), testing::Each(30));
}

TEST(EngineDecision, CountsKeysSeparately) {
  World world{"api: { limits: [ 2/h ] }"};
  EXPECT_EQ(world.admits("api", "alice", 5), 2);
  EXPECT_EQ(world.admits("api", "bob", 5), 2);
}

// Equal limits in a policy or in two policies have separate usage.
TEST(EngineDecision, CountsEqualLimitsSeparately) {
  World world{"a: { limits: [ 4/h, 4/h ] }, b: { limits: [ 4/h ] }"};
  EXPECT_TRUE(world.take("a", "alice"));
  EXPECT_THAT(world.all_left("a", "alice"), ElementsAre(3, 3));
  EXPECT_THAT(world.all_left("b", "alice"), ElementsAre(4));
}

// ---- Cost

TEST(EngineCost, IsSetByEachLimit) {
  World world{
      "llm: { limits: [ { limit: 60/min, cost: 1 }, { limit: 1000 per 1min, cost: permits }, "
      "1000/h, { limit: 1000/day, cost: 7 } ] }"};
  EXPECT_TRUE(world.take("llm", "alice", 100));
  EXPECT_THAT(world.all_left("llm", "alice"), ElementsAre(59, 900, 900, 993));
}

TEST(EngineCost, ChargesNothingIfZero) {
  World world{"api: { limits: [ 2/h, 2/h window, 2/h sliding exact ] }"};
  EXPECT_TRUE(world.take("api", "alice", 0));
  EXPECT_THAT(world.all_left("api", "alice"), ElementsAre(2, 2, 2));
  EXPECT_EQ(world.engine.memory().live, 0u);
}

TEST(EngineCost, IsImpossibleAboveTheCapacity) {
  World world{"llm: { limits: [ { limit: 60/min, cost: 1 }, { limit: 100/min, name: tokens } ] }"};
  const Verdict verdict = world.take("llm", "alice", 101);
  EXPECT_EQ(verdict.decision.outcome, Outcome::impossible);
  EXPECT_EQ(verdict.decision.retry_after, kNever);
  EXPECT_EQ(verdict.limited_by, "tokens");
  EXPECT_TRUE(verdict.error.empty());
  EXPECT_THAT(world.all_left("llm", "alice"), ElementsAre(60, 100));
}

// ---- The tightest limit

TEST(TightestLimit, IsTheOneWithTheLongestRetry) {
  World world{
      "api: { limits: [ { limit: 1/s, name: second }, { limit: 1/h, name: hour }, 1/min ] }"};
  EXPECT_TRUE(world.take("api", "alice"));
  const Verdict verdict = world.take("api", "alice");
  EXPECT_EQ(verdict.limited_by, "hour");
  EXPECT_EQ(verdict.decision.retry_after, 1h);
  EXPECT_EQ(verdict.refusing, 0b111u);
  world.clock.advance(30s);
  EXPECT_EQ(world.take("api", "alice").refusing, 0b110u);
}

// A retry_after of "never" is the longest.
TEST(TightestLimit, IsTheOneThatCanNeverPass) {
  World world{"api: { limits: [ 10/year, 5/s ] }"};
  EXPECT_TRUE(world.take("api", "alice", 5));
  const Verdict verdict = world.take("api", "alice", 6);
  EXPECT_EQ(verdict.limited_by, "1");
  EXPECT_EQ(verdict.decision.outcome, Outcome::impossible);
}

TEST(TightestLimit, HasTheLeastRemainingWhenTheCallPasses) {
  World world{"api: { limits: [ 10/s, { limit: 8/min, name: minute }, 9/h ] }"};
  const Verdict verdict = world.take("api", "alice", 3);
  EXPECT_EQ(verdict.limited_by, "minute");
  EXPECT_EQ(verdict.decision, (Decision{.limit = 8, .remaining = 5, .reset_after = 22500ms}));
  EXPECT_EQ(verdict.refusing, 0u);
}

// Remaining permits are compared after the charge.
TEST(TightestLimit, IsChosenByWhatRemainsAfterTheCall) {
  World world{"llm: { limits: [ { limit: 60/min, cost: 1 }, 100/min ] }"};
  EXPECT_EQ(world.take("llm", "alice", 30).limited_by, "0");  // 59 and 70
  EXPECT_EQ(world.take("llm", "alice", 30).limited_by, "1");  // 58 and 40
}

TEST(TightestLimit, IsTheFirstOfEqualLimits) {
  World world{"api: { limits: [ 5/h, { limit: 3/s, name: b }, { limit: 3/s, name: c } ] }"};
  EXPECT_EQ(world.take("api", "alice", 3).limited_by, "b");
  EXPECT_EQ(world.take("api", "alice", 1).limited_by, "b");
}

TEST(TightestLimit, IsReportedByNameOrElseByPosition) {
  World world{"api: { limits: [ { limit: 5/s, name: five }, 3/s ] }, one: { limits: [ 1/s ] }"};
  EXPECT_EQ(world.take("api", "alice").limited_by, "1");
  world.engine.replace(policies("api: { limits: [ { limit: 5/s, name: five }, 30/s ] }"));
  EXPECT_EQ(world.take("api", "alice").limited_by, "five");
}

// A verdict may be read after its policies were replaced.
TEST(TightestLimit, KeepsItsNameWhenThePoliciesChange) {
  World world{"api: { limits: [ { limit: 5/s, name: a limit with a name of some length } ] }"};
  const Verdict verdict = world.take("api", "alice");
  for (int i = 0; i < 10; ++i) world.engine.replace(policies("api: { limits: [ 5/s ] }"));
  EXPECT_EQ(world.take("api", "alice").limited_by, "0");
  EXPECT_EQ(verdict.limited_by, "a limit with a name of some length");
}

// ---- Waits

TEST(EngineWait, IsTheLongestOfAllLimits) {
  World world{"batch: { limits: [ 1/s queue 5, 2/s queue 9 ] }"};
  EXPECT_EQ(world.take("batch", "k").decision.wait, 0s);
  EXPECT_EQ(world.take("batch", "k").decision.wait, 1s);
  EXPECT_EQ(world.take("batch", "k").decision.wait, 2s);
}

// Only queues let callers wait, unless the request sets max_wait.
TEST(EngineWait, IsByDefaultUnlimitedForQueuesAndZeroForOtherLimits) {
  World world{"queue: { limits: [ 1/s queue 5 ] }, bucket: { limits: [ 1/s ] }"};
  EXPECT_EQ(world.admits("queue", "k", 10), 6);
  EXPECT_EQ(world.admits("bucket", "k", 10), 1);
  Request request{.policy = "bucket", .key = "k", .max_wait = 2s};
  EXPECT_EQ(world.engine.take(request).decision.wait, 1s);
  EXPECT_EQ(world.engine.take(request).decision.wait, 2s);
  EXPECT_EQ(world.engine.take(request).decision.retry_after, 1s);
}

TEST(EngineWait, IsRefusedBeyondTheMaximumOfTheRequest) {
  World world{"queue: { limits: [ 1/s queue 5, 100/s ] }"};
  Request request{.policy = "queue", .key = "k", .max_wait = 0s};
  EXPECT_TRUE(world.engine.take(request));
  const Verdict verdict = world.engine.take(request);
  EXPECT_FALSE(verdict);
  EXPECT_EQ(verdict.decision.retry_after, 1s);
  EXPECT_EQ(verdict.decision.wait, 0s);
  EXPECT_THAT(world.all_left("queue", "k"), ElementsAre(5, 99));
}

// The place in the queue and all other charges are taken at the decision.
TEST(EngineWait, DoesNotDelayTheCharge) {
  World world{"queue: { limits: [ 1/s queue 5, 10/h ] }"};
  EXPECT_EQ(world.admits("queue", "k", 3), 3);
  EXPECT_THAT(world.all_left("queue", "k"), ElementsAre(3, 7));
}

// ---- Number of limits

TEST(EngineDecision, SupportsSixteenLimits) {
  PolicySet set;
  const std::vector<Limit> limits(16, Limit{per_minute(3)});
  set.add("many", limits);
  ManualClock clock;
  Engine engine{set, small_on(clock)};
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(engine.take({.policy = "many", .key = "k"}));
  EXPECT_EQ(engine.take({.policy = "many", .key = "k"}).refusing, 0xffffu);
}

TEST(EngineDecision, AllowsEverythingWithoutLimits) {
  PolicySet set;
  set.add("free", std::span<const Limit>{});
  ManualClock clock;
  Engine engine{set, small_on(clock)};
  const Verdict verdict = engine.take({.policy = "free", .key = "k", .permits = 1'000'000});
  EXPECT_TRUE(verdict);
  EXPECT_EQ(verdict.limited_by, "");
}

}  // namespace
}  // namespace weir
