// Overrides: other limits for some keys, with the same usage.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

TEST(EngineOverrides, GiveSomeKeysOtherLimits) {
  OnePolicy world{"2/h", "overrides: { alice: 5/h, team-*: [ 7/h, 4/min ] }"};
  EXPECT_EQ(world.admits("bob", 10), 2);
  EXPECT_EQ(world.admits("alice", 10), 5);
  EXPECT_EQ(world.admits("team-1", 10), 4);
  EXPECT_EQ(world.admits("team-2", 10), 4);  // keys count separately
  EXPECT_EQ(world.take("team-1").limited_by, "1");
}

TEST(EngineOverrides, MatchByParts) {
  OnePolicy world{"{ by: user, limit: 2/h }",
                  "overrides: { user=alice: { by: user, limit: 5/h, name: alices } }"};
  Request request{.policy = "p", .parts = {{"user", "alice"}, {"sku", "9"}}, .permits = 3};
  EXPECT_EQ(world.engine.take(request).limited_by, "alices");
  request.parts = {{"sku", "8"}, {"user", "alice"}};
  EXPECT_THAT(world.all_left(request), ElementsAre(2));
  request.parts = {{"user", "bob"}};
  EXPECT_EQ(world.engine.take(request).decision.outcome, Outcome::impossible);
}

// Keys that share a bucket may have different rates: what one has used does not drain at the rate
// of another before that one asks, also after changes.
TEST(EngineOverrides, ASharedBucketDoesNotDrainFasterBecauseAKeyWithAFasterRateAsks) {
  const char* const faster = "overrides: { user=alice: { by: team, limit: 600/h } }";
  OnePolicy world{"{ by: team, limit: 30/h }", faster};
  world.clock.advance(1h);
  world.become("{ by: team, limit: 60/h }", faster);
  world.clock.advance(5h);
  const Request bob{.policy = "p", .parts = {{"team", "t"}, {"user", "bob"}}, .permits = 60};
  Request alice{.policy = "p", .parts = {{"team", "t"}, {"user", "alice"}}};
  EXPECT_TRUE(world.engine.take(bob));
  EXPECT_THAT(world.all_left(alice), ElementsAre(540));
  EXPECT_TRUE(world.engine.take(alice));
  EXPECT_THAT(world.all_left(bob), ElementsAre(0));
  alice.permits = 540;
  EXPECT_FALSE(world.engine.take(alice));
}

// An override may count by parts that other requests lack.
TEST(EngineOverrides, AreChosenBeforeTheKeyIsBuilt) {
  OnePolicy world{"2/h", "overrides: { tier=gold: { by: user, limit: 5/h } }"};
  EXPECT_EQ(world.engine.take({.policy = "p", .parts = {{"tier", "gold"}}}).error,
            "the part \"user\" is missing: this is counted by user");
  EXPECT_TRUE(world.engine.take({.policy = "p", .parts = {{"tier", "lead"}}}));
  EXPECT_EQ(world.take("").error, "the key is empty");
}

TEST(EngineOverrides, ApplyToEnter) {
  OnePolicy world{"2/h", "overrides: { batch: 1 concurrent }"};
  EXPECT_TRUE(world.take());
  EXPECT_EQ(
      world.take("batch").error,
      "the policy \"p\" has a concurrent limit: enter and leave it instead of taking from it");
  EXPECT_TRUE(world.enter("a", "batch"));
  EXPECT_FALSE(world.enter("b", "batch"));
}

TEST(EngineOverrides, ApplyToSettleExplainAndReset) {
  OnePolicy world{"2/h", "overrides: { alice: { limit: 5/h, name: hers } }"};
  const Request request{.policy = "p", .key = "alice", .permits = 4};
  Receipt receipt;
  EXPECT_TRUE(world.engine.take(request, receipt));
  EXPECT_EQ(world.engine.settle({.policy = "p", .key = "alice", .permits = -3}, receipt)
                .decision.remaining,
            4);
  EXPECT_EQ(world.engine.explain(request)->at(0).name, "hers");
  EXPECT_EQ(world.engine.explain(request)->at(0).limit, "5/h");
  EXPECT_FALSE(world.engine.reset(request));
  EXPECT_EQ(world.left("alice"), 5);
}

TEST(EngineOverrides, ApplyToBatches) {
  OnePolicy world{"1/h", "overrides: { alice: 2/h }"};
  std::vector<Request> requests;
  for (const char* key : {"alice", "bob", "alice", "bob", "alice"}) {
    requests.push_back({.policy = "p", .key = key});
  }
  std::vector<Verdict> verdicts(requests.size());
  world.engine.take_all(requests, verdicts);
  std::vector<bool> passed;
  for (const Verdict& verdict : verdicts) passed.push_back(static_cast<bool>(verdict));
  EXPECT_THAT(passed, ElementsAre(true, true, true, false, false));
}

// when_full and shadow apply to overrides too.
TEST(EngineOverrides, KeepTheSettingsOfThePolicy) {
  OnePolicy world{"1/h", "shadow: true, overrides: { alice: 1/h }"};
  EXPECT_EQ(world.admits("alice", 5), 5);
  world.become("1/h", "when_full: deny, overrides: { a*: 1/h }");
  for (int i = 0; i < 40'000; ++i) (void)world.take("a" + std::to_string(i));
  EXPECT_GT(world.engine.memory().denied, 0u);
}

// ---- Usage

// A key keeps its usage when it gets or loses an override.
TEST(EngineOverrides, KeepUsage) {
  OnePolicy world{"10/h"};
  EXPECT_TRUE(world.take("alice", 6));
  EXPECT_TRUE(world.take("bob", 6));
  world.become("10/h", "overrides: { alice: 20/h }");
  EXPECT_EQ(world.left("alice"), 14);
  EXPECT_EQ(world.left("bob"), 4);
  world.become("10/h");
  EXPECT_EQ(world.left("alice"), 4);
}

// The new rate applies from the change on, without a call at that time.
TEST(EngineOverrides, ChangeTheRateAtTheTimeOfTheChange) {
  OnePolicy world{"60/h"};
  EXPECT_TRUE(world.take("alice", 60));
  EXPECT_TRUE(world.take("ada", 60));
  world.become("60/h", "overrides: { alice: 120/h, a*: 600/h }");
  world.clock.advance(1min);
  EXPECT_EQ(world.left("alice"), 62);
  EXPECT_EQ(world.left("ada"), 550);
  // From one override to another.
  world.become("60/h", "overrides: { alice: 60/h, ad*: 60/h }");
  world.clock.advance(1min);
  EXPECT_EQ(world.left("alice"), 3);
  EXPECT_EQ(world.left("ada"), 11);
}

TEST(EngineOverrides, StartAtRestWhereNoLimitCorresponds) {
  OnePolicy world{"10/h"};
  EXPECT_TRUE(world.take("alice", 6));
  world.become("10/h", "overrides: { alice: [ 10/min, 20/h ] }");
  EXPECT_THAT(world.all_left("alice"), ElementsAre(10, 14));
}

TEST(EngineOverrides, CanBeThousands) {
  std::string overrides;
  for (int i = 0; i < 5000; ++i) {
    overrides += "key" + std::to_string(i) + ": " + std::to_string(2 + i % 5) + "/h, ";
  }
  OnePolicy world{"1/h", "overrides: { " + overrides + "}"};
  for (int i = 0; i < 5000; i += 501) {
    EXPECT_EQ(world.admits("key" + std::to_string(i), 10), 2 + i % 5);
  }
  EXPECT_EQ(world.admits("key5000", 10), 1);
}

// Usage under a removed override drains at the key's current rate, with or without calls in
// between.
TEST(EngineOverrides, LeaveTheirUsageToTheLimitsThatReplaceThem) {
  constexpr std::string_view without = "p: { limits: [ 100/h ] }";
  for (const bool asks : {false, true}) {
    World world{"p: { limits: [ 100/h ], overrides: { k: 36000/h } }"};
    EXPECT_TRUE(world.take("p", "k", 900));
    world.engine.replace(policies(without));
    for (int minute = 1; minute < 8 * 60; ++minute) {
      world.clock.advance(1min);
      if (asks) {
        EXPECT_FALSE(world.take("p", "k")) << minute;
      }
    }
    EXPECT_FALSE(world.take("p", "k"));
    world.clock.advance(2min);  // 900 less 800 in eight hours, and one in 36 s
    EXPECT_TRUE(world.take("p", "k"));
  }
}

}  // namespace
}  // namespace weir
