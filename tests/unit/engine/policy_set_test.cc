// PolicySet: from text, from files, from a program.

#include "weir/policy_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "weir/parse_limit.h"
#include "world.h"

namespace weir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(PolicySet, IsEmptyByDefault) {
  EXPECT_THAT(PolicySet{}.names(), IsEmpty());
  ManualClock clock;
  Engine engine{{}, small_on(clock)};
  EXPECT_EQ(engine.take({.policy = "p", .key = "k"}).error, "there is no policy \"p\"");
}

TEST(PolicySet, ParsesText) {
  const auto set = PolicySet::parse("policies:\n  b: { limits: [ 5/s ] }\n  a: { limits: 1/h }\n");
  ASSERT_TRUE(set);
  EXPECT_THAT(set->names(), ElementsAre("a", "b"));
}

TEST(PolicySet, LoadsAFile) {
  const std::string path = testing::TempDir() + "weir policy_set_test.yaml";
  std::ofstream(path) << "policies: { login: { limits: [ 5/min sliding ] } }";
  const auto set = PolicySet::load(path);
  ASSERT_TRUE(set);
  EXPECT_THAT(set->names(), ElementsAre("login"));
  std::remove(path.c_str());
  const auto gone = PolicySet::load(path);
  ASSERT_FALSE(gone);
  EXPECT_THAT(gone.error().message, HasSubstr("No such file or directory"));
}

TEST(PolicySet, ReportsAllProblemsWithTheirPositions) {
  const auto set = PolicySet::parse(
      "policies:\n  a: { limits: [ 5/sec ] }\n  b: { limits: [ 5/s ], when_full: shar }\n",
      "weir.yaml");
  ASSERT_FALSE(set);
  EXPECT_THAT(set.error().message,
              HasSubstr("weir.yaml:2:20: unknown unit \"sec\": did you mean \"5/s\"?\n"
                        "    a: { limits: [ 5/sec ] }\n"));
  EXPECT_THAT(set.error().message,
              HasSubstr("weir.yaml:3:36: \"when_full\" is share, deny or allow"));
}

TEST(PolicySet, CanBeBuiltByAProgram) {
  PolicySet set;
  const std::vector<Limit> limits{per_second(10), Limit::window(15, std::chrono::hours{1})};
  set.add("api", limits).add("login", per_minute(5));
  EXPECT_THAT(set.names(), ElementsAre("api", "login"));
  ManualClock clock;
  Engine engine{set, small_on(clock)};
  EXPECT_TRUE(engine.take({.policy = "api", .key = "k", .permits = 10}));
  EXPECT_TRUE(engine.take({.policy = "login", .key = "k", .permits = 5}));
  EXPECT_EQ(engine.explain({.policy = "api", .key = "k"})->size(), 2u);
}

TEST(PolicySet, ReplacesAPolicyOfTheSameName) {
  World world{"api: { limits: [ 5/s, 6/s ], when_full: deny, shadow: true }"};
  auto set = PolicySet::parse("policies: { api: { limits: [ 5/s ], when_full: deny } }");
  ASSERT_TRUE(set);
  set->add("api", per_hour(1));
  EXPECT_THAT(set->names(), ElementsAre("api"));
  // Nothing of the old policy is left, including its when_full.
  world.engine.replace(*set);
  for (int i = 0; i < 40'000; ++i) {
    (void)world.engine.take({.policy = "api", .key = "key " + std::to_string(i)});
  }
  EXPECT_GT(world.engine.memory().shared, 0u);
  EXPECT_EQ(world.engine.memory().denied, 0u);
}

// Copies share their data until one of them changes.
TEST(PolicySet, IsCopiedByValue) {
  PolicySet set;
  set.add("a", per_second(1));
  PolicySet copy = set;
  copy.add("b", per_second(1));
  EXPECT_THAT(set.names(), ElementsAre("a"));
  EXPECT_THAT(copy.names(), ElementsAre("a", "b"));
  ManualClock clock;
  Engine engine{set, small_on(clock)};
  set.add("c", per_second(1));
  EXPECT_FALSE(engine.take({.policy = "c", .key = "k"}));
}

TEST(PolicySet, AllowsSixteenLimitsInAPolicy) {
  PolicySet set;
  const std::vector<Limit> many(17, Limit{per_second(1)});
  EXPECT_THROW(set.add("many", many), std::invalid_argument);
  EXPECT_THAT(set.names(), IsEmpty());
  set.add("many", std::span(many).first(16));
  EXPECT_THAT(set.names(), ElementsAre("many"));
}

// A program may use any name.
TEST(PolicySet, AcceptsAnyName) {
  const std::vector<std::string> names{"",
                                       " ",
                                       std::string("a\0b", 3),
                                       std::string("a\0c", 3),
                                       "\xff\xfe",
                                       std::string(100'000, 'x')};
  PolicySet set;
  for (const std::string& name : names) set.add(name, per_hour(1));
  ManualClock clock;
  Engine engine{set, small_on(clock)};
  for (const std::string& name : names) {
    EXPECT_TRUE(engine.take({.policy = name, .key = "k"}));
    EXPECT_FALSE(engine.take({.policy = name, .key = "k"}));
  }
}

// ---- Limits from text

TEST(ParseLimit, ReadsALimit) {
  const auto limit = parse_limit("20/s burst 30");
  ASSERT_TRUE(limit);
  EXPECT_EQ(limit->capacity(), 30);
  ManualClock clock;
  PolicySet set;
  set.add("p", *parse_limit("2 concurrent"));
  Engine engine{set, small_on(clock)};
  EXPECT_TRUE(engine.enter({.policy = "p", .key = "k"}, "a"));
}

TEST(ParseLimit, ReportsProblemPositionAndRemedy) {
  const auto limit = parse_limit("5/sec");
  ASSERT_FALSE(limit);
  EXPECT_EQ(limit.error().message,
            "limit:1:3: unknown unit \"sec\": did you mean \"5/s\"?\n  5/sec\n    ^\n");
}

TEST(ParseLimit, ReadsTheOutputOfToString) {
  for (const char* text : {"20/s burst 30", "5/min sliding", "5/h sliding exact", "10/s queue 50",
                           "1000/day in Asia/Shanghai", "200/s warmup 10s",
                           "8 concurrent lease 30s", "0.5/s", "7/min window from first"}) {
    const auto limit = parse_limit(text);
    ASSERT_TRUE(limit) << text;
    EXPECT_EQ(to_string(*limit), text);
  }
  EXPECT_EQ(to_string(Limit::queue(per_second(3), 5, 2)), "3/s queue 5 delay 2");
  EXPECT_EQ(to_string(*parse_limit(to_string(Limit{per_minute(3)}))), "3/min");
}

}  // namespace
}  // namespace weir
