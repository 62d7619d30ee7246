// explain: the state of each limit of a policy for people.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/policy_set_access.h"
#include "world.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

std::vector<LimitState> explained(World& world, const Request& request) {
  auto states = world.engine.explain(request);
  if (!states) throw std::invalid_argument(states.error().message);
  return *std::move(states);
}

TEST(EngineExplain, ReportsTextCostAndDecisionOfEveryLimit) {
  World world{
      "llm: { limits: [ { limit: 60 per 1min, cost: 1 }, { limit: 100 per 60s, name: tokens }, "
      "{ limit: 50/day, shadow: true, name: day }, { limit: 9/h sliding exact, cost: 2 } ] }"};
  EXPECT_TRUE(world.take("llm", "alice", 40));
  const auto states = explained(world, {.policy = "llm", .key = "alice", .permits = 70});
  ASSERT_EQ(states.size(), 4u);

  EXPECT_EQ(states[0].name, "0");
  EXPECT_EQ(states[0].limit, "60/min");
  EXPECT_EQ(states[0].cost, 1);
  EXPECT_FALSE(states[0].shadow);
  EXPECT_EQ(states[0].decision, (Decision{.limit = 60, .remaining = 59, .reset_after = 1s}));

  EXPECT_EQ(states[1].name, "tokens");
  EXPECT_EQ(states[1].limit, "100/min");
  EXPECT_EQ(states[1].cost, 70);
  EXPECT_EQ(states[1].decision.outcome, Outcome::limited);
  EXPECT_EQ(states[1].decision.remaining, 60);
  EXPECT_EQ(states[1].decision.retry_after, 6s);

  EXPECT_EQ(states[2].name, "day");
  EXPECT_TRUE(states[2].shadow);
  EXPECT_EQ(states[2].decision.outcome, Outcome::impossible);  // its own answer

  EXPECT_EQ(states[3].limit, "9/h sliding exact");
  EXPECT_EQ(states[3].cost, 2);
  EXPECT_EQ(states[3].decision.remaining, 7);
}

// The text can be copied into a policy file.
TEST(EngineExplain, WritesLimitsInTheSyntaxOfPolicyFiles) {
  const std::vector<std::string> texts{"10/s burst 20",
                                       "5/min sliding",
                                       "5/h sliding exact",
                                       "10/s queue 50",
                                       "100/day in Asia/Shanghai",
                                       "200/s warmup 10s",
                                       "8 concurrent lease 30s",
                                       "7/min window from first"};
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "" : ", ") + text;
  World world{"all: { limits: [ " + list + " ] }"};
  std::vector<std::string> reported;
  for (const LimitState& state : explained(world, {.policy = "all", .key = "k"})) {
    reported.push_back(state.limit);
  }
  EXPECT_EQ(reported, texts);
}

TEST(EngineExplain, CountsByThePartsOfEachLimit) {
  World world{"api: { limits: [ { by: user, limit: 5/h }, { by: sku, limit: 5/h } ] }"};
  EXPECT_TRUE(world.engine.take({.policy = "api", .parts = {{"user", "alice"}, {"sku", "9"}}}));
  EXPECT_THAT(world.all_left({.policy = "api", .parts = {{"user", "alice"}, {"sku", "8"}}}),
              ElementsAre(4, 5));
}

// Which rules of the policy apply to a key, and why.
TEST(EngineExplain, ReportsTheOriginOfEachLimit) {
  using Kind = LimitOrigin::Kind;
  const std::string text =
      "p: { limits: [ 5/h ], overrides: { big: 9/h, \"team-*\": [ 7/h, 8/min ] }, "
      "schedule: [ { days: mon-fri, hours: '09:00-18:00', limits: [ 6/h ] } ] }";
  World world{text};
  const auto why = [&](std::string_view key) {
    const auto states = explained(world, {.policy = "p", .key = key});
    return std::pair{states.back().origin.kind, states.back().origin.text};
  };
  EXPECT_EQ(why("anybody"), std::pair(Kind::policy, std::string{}));
  EXPECT_EQ(why("big"), std::pair(Kind::override_of_key, std::string{"big"}));
  EXPECT_EQ(why("team-7"), std::pair(Kind::override_of_key, std::string{"team-*"}));
  world.clock.advance(9h);
  EXPECT_EQ(why("anybody"), std::pair(Kind::schedule, std::string{"mon-fri 09:00-18:00"}));
  EXPECT_EQ(why("big"), std::pair(Kind::override_of_key, std::string{"big"}));

  // An order changes the limits of its keys, and not their origin.
  policy::PolicySet set = policies_of(policies(text));
  for (const char* key : {"big", "anybody"}) {
    set.find("p")->second.orders.push_back({.verb = policy::Order::Verb::boost,
                                            .who = key,
                                            .change = {.millionths = 2 * policy::Change::kOne},
                                            .until = world.clock.now() + 1h});
  }
  world.engine.replace(policy_set_of(std::move(set)));
  EXPECT_EQ(explained(world, {.policy = "p", .key = "big"})[0].limit, "18/h");
  EXPECT_EQ(why("big"), std::pair(Kind::override_of_key, std::string{"big"}));
  EXPECT_EQ(why("anybody"), std::pair(Kind::schedule, std::string{"mon-fri 09:00-18:00"}));
}

TEST(EngineExplain, ChargesNothing) {
  World world{"api: { limits: [ 5/h, 5/h window, 5/h sliding exact, 2 concurrent ] }"};
  for (int i = 0; i < 10; ++i) (void)explained(world, {.policy = "api", .key = "k", .permits = 2});
  EXPECT_THAT(world.all_left("api", "k"), ElementsAre(5, 5, 5, 2));
  EXPECT_EQ(world.engine.memory().live, 0u);
  EXPECT_EQ(world.engine.memory().record_used, 0u);
}

}  // namespace
}  // namespace weir
