// Operators' orders: boosts, blocks, squeezes and pauses. Usage is kept through all of them, and
// each order ends by itself.

#include <gtest/gtest.h>

#include "engine/policy_set_access.h"
#include "world.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using policy::Change;
using policy::Order;
using Verb = policy::Order::Verb;

Instant at(Nanos time) { return ManualClock::kStart + time; }
constexpr Change times(std::int64_t factor) { return {.millionths = factor * Change::kOne}; }

// The policies with orders for "p".
PolicySet with(std::string_view text, std::vector<Order> orders) {
  policy::PolicySet set = policies_of(policies(text));
  set.find("p")->second.orders = std::move(orders);
  return policy_set_of(std::move(set));
}

// The number of calls that pass now.
int passing(World& world, std::string_view key, int most = 1000) {
  int passed = 0;
  while (passed < most && world.take("p", key)) ++passed;
  return passed;
}

constexpr std::string_view kTen = "p: { limits: [ 10/min ] }";

TEST(Orders, ABlockRefusesUntilItEnds) {
  World world{kTen};
  world.engine.replace(with(kTen, {{.verb = Verb::block, .who = "bad", .until = at(1h)}}));
  const Verdict refused = world.take("p", "bad");
  EXPECT_FALSE(refused);
  EXPECT_TRUE(refused.blocked);
  EXPECT_EQ(refused.limited_by, "block");
  EXPECT_EQ(refused.decision.outcome, Outcome::limited);
  EXPECT_EQ(refused.decision.retry_after, 1h);
  EXPECT_EQ(refused.decision.remaining, 0);
  EXPECT_TRUE(world.take("p", "good"));
  world.clock.set(at(1h) - 1ns);
  EXPECT_EQ(world.take("p", "bad").decision.retry_after, 1ns);
  world.clock.set(at(1h));
  EXPECT_EQ(passing(world, "bad"), 10) << "refused calls have used nothing";
}

// When a limit is restored, the time in between counts at the rate that applied then.
TEST(Orders, ARepeatedSqueezeMintsNothing) {
  constexpr std::string_view sixty = "p: { limits: [ 60 per 60s ] }";
  World world{sixty};
  EXPECT_EQ(passing(world, "k"), 60);
  const std::vector<Order> squeeze{
      {.verb = Verb::squeeze, .change = {.millionths = Change::kOne / 100}, .until = at(24h)}};
  int passed = 0;
  for (int i = 0; i < 100; ++i) {
    world.engine.replace(with(sixty, squeeze));
    for (int second = 0; second < 10; ++second) {
      world.clock.advance(1s);
      passed += passing(world, "k");
    }
    world.engine.replace(with(sixty, {}));
    passed += passing(world, "k");
  }
  EXPECT_EQ(passed, 10) << "1,000 seconds at a hundredth of one a second";
}

// No call comes during the boost or at its end.
TEST(Orders, ABoostsExtraPermitsAreOwedAfterIt) {
  constexpr std::string_view daily = "p: { limits: [ 100 per 24h ] }";
  World world{daily};
  const std::vector<Order> boost{
      {.verb = Verb::boost, .who = "k", .change = times(10), .until = at(1h)}};
  world.engine.replace(with(daily, boost));
  EXPECT_EQ(passing(world, "k", 2000), 1000);
  world.engine.replace(with(daily, {}));
  world.clock.set(at(0s) + 24h * 9 - 1s);
  EXPECT_EQ(passing(world, "k"), 0) << "nine days for nine hundred";
  world.clock.set(at(0s) + 24h * 9 + 15min);
  EXPECT_EQ(passing(world, "k"), 1);
}

TEST(Orders, ABlockAppliesToPeekEnterAndBatches) {
  World world{"p: { limits: [ 3 concurrent ] }"};
  world.engine.replace(with("p: { limits: [ 3 concurrent ] }",
                            {{.verb = Verb::block, .who = "bad", .until = at(1h)}}));
  const Request bad{.policy = "p", .key = "bad"};
  EXPECT_TRUE(world.engine.enter(bad, "me").blocked);
  EXPECT_TRUE(world.engine.peek(bad).blocked);

  world.engine.replace(with(kTen, {{.verb = Verb::block, .who = "bad", .until = at(1h)}}));
  const std::array<Request, 2> both{bad, Request{.policy = "p", .key = "good"}};
  std::array<Verdict, 2> verdicts;
  world.engine.take_all(both, verdicts);
  EXPECT_TRUE(verdicts[0].blocked);
  EXPECT_TRUE(verdicts[1]);
  Receipt receipt;
  EXPECT_TRUE(world.engine.take(bad, receipt).blocked);
}

TEST(Orders, ABlockDoesNotHideARequestError) {
  World world{kTen};
  world.engine.replace(with(kTen, {{.verb = Verb::block, .who = "*", .until = at(1h)}}));
  EXPECT_FALSE(world.take("p", "").error.empty());
  EXPECT_TRUE(world.take("p", "anybody").blocked);
}

TEST(Orders, ABlockCanNameAPart) {
  constexpr std::string_view text = "p: { limits: [ { by: user, limit: 10/min } ] }";
  World world{text};
  world.engine.replace(with(text, {{.verb = Verb::block, .who = "user=42", .until = at(1h)}}));
  const auto take = [&](std::string_view user) {
    return world.engine.take({.policy = "p", .parts = {{"user", user}, {"sku", "7"}}});
  };
  EXPECT_TRUE(take("42").blocked);
  EXPECT_TRUE(take("43"));
}

TEST(Orders, ABoostAppliesAtOnceAndKeepsUsage) {
  World world{kTen};
  EXPECT_EQ(passing(world, "k"), 10);
  world.engine.replace(
      with(kTen, {{.verb = Verb::boost, .who = "k", .change = times(3), .until = at(1h)}}));
  EXPECT_EQ(passing(world, "k"), 20);
  EXPECT_EQ(passing(world, "other"), 10);
}

TEST(Orders, ABoostAddsToEveryKindOfLimit) {
  for (const auto& [limit, more] : {std::pair{"10/min", 15},
                                    {"10/min burst 20", 25},
                                    {"10/min window", 15},
                                    {"10/min sliding", 15},
                                    {"10/min sliding exact", 15},
                                    {"10/day", 15},
                                    {"10/min queue 3 nodelay", 9}}) {
    const std::string text = only(limit);
    World world{text};
    world.engine.replace(
        with(text, {{.verb = Verb::boost, .change = {.more = 5}, .until = at(1h)}}));
    EXPECT_EQ(passing(world, "k"), more) << limit;
  }
}

// A longer queue must not let a caller pass without its wait.
TEST(Orders, ABoostedQueueStillSpacesItsCallers) {
  constexpr std::string_view text = "p: { limits: [ 1/s queue 5 ] }";
  World world{text};
  world.engine.replace(with(text, {{.verb = Verb::boost, .change = {.more = 1}, .until = at(1h)}}));
  for (const Nanos wait : {0ms, 500ms, 1000ms, 1500ms}) {
    EXPECT_EQ(world.take("p", "k").decision.wait, wait);
  }
}

TEST(Orders, ABoostEndsByItself) {
  World world{kTen};
  world.engine.replace(with(kTen, {{.verb = Verb::boost, .change = times(2), .until = at(1min)}}));
  EXPECT_EQ(passing(world, "k"), 20);
  world.clock.set(at(2min));
  // Ten drained in the first minute at 20/min, and ten in the second at 10/min.
  EXPECT_EQ(passing(world, "k"), 10);
  EXPECT_EQ(world.take("p", "k").decision.limit, 10);
}

// Without calls in between, each period still counts at its own rate.
TEST(Orders, DebtDrainsAtTheRateOfEachPeriod) {
  constexpr std::string_view text = "p: { limits: [ 10/min burst 100 ] }";
  const std::vector<Order> orders{
      {.verb = Verb::boost, .who = "k", .change = times(6), .until = at(1min)}};
  World world{text};
  world.engine.replace(with(text, orders));
  EXPECT_EQ(passing(world, "k"), 600);
  world.clock.set(at(1min) + 30s);
  // 600 owed; 60 drained in the boosted minute, 5 in the half minute after it: 535 of 100 are left.
  EXPECT_EQ(world.engine.peek({.policy = "p", .key = "k"}).decision.retry_after, (535 - 99) * 6s);
}

TEST(Orders, ABoostScalesTheLimitsOfItsKeys) {
  constexpr std::string_view text =
      "p: { limits: [ 10/min ], overrides: { 'vip*': { limits: [ 100/min ] } } }";
  World world{text};
  world.engine.replace(
      with(text, {{.verb = Verb::boost, .who = "vip1", .change = times(2), .until = at(1h)},
                  {.verb = Verb::boost, .who = "k", .change = times(2), .until = at(1h)}}));
  EXPECT_EQ(passing(world, "vip1"), 200);
  EXPECT_EQ(passing(world, "vip2"), 100);
  EXPECT_EQ(passing(world, "k"), 20);
}

// A boost of a prefix scales the overrides below it too: no key gets less than before.
TEST(Orders, ABoostOfAPrefixScalesTheOverridesBelowIt) {
  constexpr std::string_view text =
      "p: { limits: [ 10/min ], overrides: { 'vip-7': { limits: [ 100/min ] }, "
      "'vip-gold*': { limits: [ 200/min ] }, 'other': { limits: [ 30/min ] } } }";
  World world{text};
  const std::vector<Order> orders{
      {.verb = Verb::boost, .who = "vip*", .change = times(2), .until = at(1h)}};
  world.engine.replace(with(text, orders));
  EXPECT_EQ(passing(world, "vip-1"), 20);
  EXPECT_EQ(passing(world, "vip-7"), 200);
  EXPECT_EQ(passing(world, "vip-gold-1"), 400);
  EXPECT_EQ(passing(world, "other"), 30);
  EXPECT_EQ(passing(world, "k"), 10);
  world.clock.set(at(2h));
  EXPECT_EQ(passing(world, "vip-1"), 10);
  EXPECT_EQ(passing(world, "vip-7"), 100);
  EXPECT_EQ(passing(world, "vip-gold-1"), 200);
}

TEST(Orders, TheMostSpecificActiveBoostApplies) {
  constexpr std::string_view text =
      "p: { limits: [ 10/min ], overrides: { 'vip-7': { limits: [ 100/min ] } } }";
  World world{text};
  world.engine.replace(
      with(text, {{.verb = Verb::boost, .who = "vip*", .change = times(2), .until = at(2h)},
                  {.verb = Verb::boost, .who = "vip-*", .change = times(3), .until = at(1h)},
                  {.verb = Verb::boost, .who = "vip-9", .change = times(4), .until = at(1h)}}));
  EXPECT_EQ(passing(world, "vip-7"), 300);
  EXPECT_EQ(passing(world, "vip-8"), 30);
  EXPECT_EQ(passing(world, "vip-9"), 40);
  // An ended boost has no effect.
  world.clock.set(at(1h) + 30min);
  EXPECT_EQ(passing(world, "vip-7"), 200);
  EXPECT_EQ(passing(world, "vip-8"), 20);
  EXPECT_EQ(passing(world, "vip-9"), 20);
}

// A boost by one part does not affect keys with an override by another part.
TEST(Orders, ABoostByOnePartKeepsAnOverrideByAnother) {
  constexpr std::string_view text =
      "p: { limits: [ { by: user, limit: 10/min } ], "
      "overrides: { 'user=bob': { limits: [ { by: user, limit: 100/min } ] } } }";
  World world{text};
  world.engine.replace(
      with(text, {{.verb = Verb::boost, .who = "plan=gold", .change = times(2), .until = at(1h)}}));
  const auto limit = [&](const char* user) {
    return world.engine.peek({.policy = "p", .parts = Parts{{"plan", "gold"}, {"user", user}}})
        .decision.limit;
  };
  EXPECT_EQ(limit("alice"), 20);
  EXPECT_EQ(limit("bob"), 100);
}

TEST(Orders, ABoostFollowsTheSchedule) {
  constexpr std::string_view text =
      "p: { limits: [ 10/h window ], schedule: [ { hours: '01:00-02:00', limits: [ 20/h window ] } "
      "] }";
  World world{text};
  world.engine.replace(
      with(text, {{.verb = Verb::boost, .who = "k", .change = times(2), .until = at(5h)}}));
  EXPECT_EQ(passing(world, "k"), 20);
  world.clock.set(at(1h));
  EXPECT_EQ(passing(world, "k"), 40);
  world.clock.set(at(2h));
  EXPECT_EQ(passing(world, "k"), 20);
  world.clock.set(at(5h));
  EXPECT_EQ(passing(world, "k"), 10);
}

TEST(Orders, ASqueezeLeavesAtLeastOnePermit) {
  World world{kTen};
  world.engine.replace(
      with(kTen,
           {{.verb = Verb::squeeze, .change = {.millionths = Change::kOne / 2}, .until = at(1h)}}));
  EXPECT_EQ(passing(world, "k"), 5);
  world.engine.replace(
      with(kTen, {{.verb = Verb::squeeze, .change = {.millionths = 1}, .until = at(1h)}}));
  EXPECT_EQ(passing(world, "new"), 1);
}

TEST(Orders, ASqueezeAppliesToOverridesAndBoosts) {
  constexpr std::string_view text =
      "p: { limits: [ 10/min ], overrides: { vip: { limits: [ 100/min ] } } }";
  World world{text};
  world.engine.replace(
      with(text,
           {{.verb = Verb::boost, .who = "k", .change = times(4), .until = at(1h)},
            {.verb = Verb::squeeze, .change = {.millionths = Change::kOne / 2}, .until = at(2h)}}));
  EXPECT_EQ(passing(world, "vip"), 50);
  EXPECT_EQ(passing(world, "k"), 20);
  world.clock.set(at(2h));
  EXPECT_EQ(passing(world, "vip"), 100);
}

TEST(Orders, APausedPolicyAllowsAndKeepsCounting) {
  World world{kTen};
  world.engine.replace(with(kTen, {{.verb = Verb::pause, .until = at(1min)}}));
  EXPECT_EQ(passing(world, "k", 50), 50);
  EXPECT_EQ(world.take("p", "k").refusing, 1u) << "the limit says what it would have said";
  world.engine.replace(with(kTen, {}));
  EXPECT_EQ(passing(world, "k"), 0) << "what passed within the limit was counted";
}

TEST(Orders, ABlockOverridesEverythingElse) {
  World world{kTen};
  world.engine.replace(
      with(kTen, {{.verb = Verb::pause, .until = at(1h)},
                  {.verb = Verb::boost, .who = "k", .change = times(2), .until = at(1h)},
                  {.verb = Verb::block, .who = "k", .until = at(1h)}}));
  EXPECT_TRUE(world.take("p", "k").blocked);
}

}  // namespace
}  // namespace weir
