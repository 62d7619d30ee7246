// Concurrency limits: enter, leave, hold times.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

constexpr Request kReport{.policy = "report", .key = "k"};

TEST(EngineEnter, AdmitsUpToTheLimit) {
  World world{"report: { limits: [ { limit: 2 concurrent lease 30s, name: inside } ] }"};
  EXPECT_EQ(world.engine.enter(kReport, "a").decision.remaining, 1);
  EXPECT_EQ(world.engine.enter(kReport, "b").decision.remaining, 0);
  world.clock.advance(10s);
  const Verdict third = world.engine.enter(kReport, "c");
  EXPECT_EQ(third.decision.outcome, Outcome::limited);
  EXPECT_EQ(third.decision.retry_after, 20s);
  EXPECT_EQ(third.limited_by, "inside");
  EXPECT_TRUE(world.engine.leave(kReport, "a"));
  EXPECT_TRUE(world.engine.enter(kReport, "c"));
}

TEST(EngineEnter, CountsKeysSeparately) {
  World world{"report: { limits: [ 1 concurrent ] }"};
  EXPECT_TRUE(world.engine.enter({.policy = "report", .key = "alice"}, "a"));
  EXPECT_TRUE(world.engine.enter({.policy = "report", .key = "bob"}, "a"));
  EXPECT_FALSE(world.engine.leave({.policy = "report", .key = "carol"}, "a"));
}

// One decision over all limits of the policy: none is charged if one refuses.
TEST(EngineEnter, ChecksTheOtherLimitsToo) {
  World world{"report: { limits: [ 2/h, 3 concurrent, { limit: 9/h, cost: 2 } ] }"};
  EXPECT_TRUE(world.engine.enter(kReport, "a"));
  EXPECT_TRUE(world.engine.enter(kReport, "b"));
  EXPECT_EQ(world.engine.enter(kReport, "c").limited_by, "0");
  EXPECT_THAT(world.all_left("report", "k"), ElementsAre(0, 1, 5));
  EXPECT_TRUE(world.engine.leave(kReport, "b"));
  // leave frees the permit, but not the rate limit's charge
  EXPECT_FALSE(world.engine.enter(kReport, "b"));
  EXPECT_THAT(world.all_left("report", "k"), ElementsAre(0, 2, 5));
}

TEST(EngineEnter, ChargesNothingWhenNoPermitIsFree) {
  World world{"report: { limits: [ 10/h, 1 concurrent, 10/h window ] }"};
  EXPECT_TRUE(world.engine.enter(kReport, "a"));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(world.engine.enter(kReport, "b"));
  EXPECT_THAT(world.all_left("report", "k"), ElementsAre(9, 0, 9));
}

// The permit of a crashed holder is freed after the hold time.
TEST(EngineEnter, EndsWithTheHoldTime) {
  World world{"report: { limits: [ 1 concurrent lease 30s ] }"};
  EXPECT_TRUE(world.engine.enter(kReport, "a"));
  world.clock.advance(30s - 1ns);
  EXPECT_FALSE(world.engine.enter(kReport, "b"));
  world.clock.advance(1ns);
  EXPECT_FALSE(world.engine.leave(kReport, "a"));  // it had expired
  EXPECT_TRUE(world.engine.enter(kReport, "b"));
  EXPECT_FALSE(world.engine.enter(kReport, "a"));
}

// A client that lost the answer may repeat its call.
TEST(EngineEnter, RenewsTheHoldTimeWithoutACharge) {
  World world{"report: { limits: [ 2/h, 2 concurrent lease 30s, 2 concurrent lease 60s ] }"};
  EXPECT_TRUE(world.engine.enter(kReport, "a"));
  world.clock.advance(20s);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(world.engine.enter(kReport, "a"));
  EXPECT_THAT(world.all_left("report", "k"), ElementsAre(1, 1, 1));
  world.clock.advance(29s);
  EXPECT_TRUE(world.engine.enter(kReport, "b"));
  // The rate limit has nothing left, and is not asked about a renewal.
  EXPECT_TRUE(world.engine.enter(kReport, "a"));
  EXPECT_TRUE(world.engine.leave(kReport, "a"));
}

// After the hold time, a call is new and all limits decide.
TEST(EngineEnter, ChargesAgainAfterTheHoldTime) {
  World world{"report: { limits: [ 1/h, 1 concurrent lease 30s ] }"};
  EXPECT_TRUE(world.engine.enter(kReport, "a"));
  world.clock.advance(30s);
  EXPECT_EQ(world.engine.enter(kReport, "a").limited_by, "0");
}

TEST(EngineEnter, HoldsTheRequestedPermits) {
  World world{"report: { limits: [ 5 concurrent, { limit: 5 concurrent, cost: 1 } ] }"};
  const Request three{.policy = "report", .key = "k", .permits = 3};
  EXPECT_TRUE(world.engine.enter(three, "a"));
  EXPECT_THAT(world.all_left("report", "k"), ElementsAre(2, 4));
  EXPECT_EQ(world.engine.enter(three, "b").limited_by, "0");
  EXPECT_TRUE(world.engine.leave(kReport, "a"));
  EXPECT_THAT(world.all_left("report", "k"), ElementsAre(5, 5));
  const Request six{.policy = "report", .key = "k", .permits = 6};
  EXPECT_EQ(world.engine.enter(six, "a").decision.outcome, Outcome::impossible);
}

TEST(EngineEnter, CountsByParts) {
  World world{
      "report: { limits: [ { by: tenant, limit: 2 concurrent }, "
      "{ by: user, limit: 1 concurrent } ] }"};
  const auto about = [](std::string_view tenant, std::string_view user) {
    return Request{.policy = "report", .parts = {{"tenant", tenant}, {"user", user}}};
  };
  EXPECT_TRUE(world.engine.enter(about("t", "alice"), "1"));
  EXPECT_EQ(world.engine.enter(about("t", "alice"), "2").limited_by, "1");
  EXPECT_TRUE(world.engine.enter(about("t", "bob"), "2"));
  EXPECT_EQ(world.engine.enter(about("t", "carol"), "3").limited_by, "0");
  EXPECT_TRUE(world.engine.leave(about("t", "bob"), "2"));
  EXPECT_TRUE(world.engine.enter(about("t", "carol"), "3"));
}

TEST(EngineEnter, DistinguishesHoldersByAllTheirBytes) {
  World world{"report: { limits: [ 100 concurrent ] }"};
  using namespace std::string_view_literals;
  const std::string long_name(100'000, 'x');
  const std::vector<std::string> holders{
      "a", "A", std::string("a\0", 2), std::string("a\0b", 3), "\xff", long_name, long_name + "y"};
  for (const std::string& holder : holders) EXPECT_TRUE(world.engine.enter(kReport, holder));
  EXPECT_THAT(world.all_left("report", "k"), ElementsAre(93));
  for (const std::string& holder : holders) EXPECT_TRUE(world.engine.leave(kReport, holder));
  EXPECT_THAT(world.all_left("report", "k"), ElementsAre(100));
}

TEST(EngineEnter, SupportsManyHolders) {
  World world{"report: { limits: [ 500 concurrent ] }"};
  for (int i = 0; i < 500; ++i) EXPECT_TRUE(world.engine.enter(kReport, std::to_string(i)));
  EXPECT_FALSE(world.engine.enter(kReport, "one more"));
  for (int i = 0; i < 500; ++i) EXPECT_TRUE(world.engine.leave(kReport, std::to_string(i)));
  EXPECT_THAT(world.all_left("report", "k"), ElementsAre(500));
}

TEST(EngineLeave, ReportsWhetherTheHolderHadEntered) {
  World world{"report: { limits: [ 2 concurrent ] }, api: { limits: [ 5/s ] }"};
  EXPECT_FALSE(world.engine.leave(kReport, "a"));
  EXPECT_TRUE(world.engine.enter(kReport, "a"));
  EXPECT_FALSE(world.engine.leave(kReport, "b"));
  EXPECT_FALSE(world.engine.leave(kReport, ""));
  EXPECT_FALSE(world.engine.leave({.policy = "reprot", .key = "k"}, "a"));
  EXPECT_FALSE(world.engine.leave({.policy = "api", .key = "k"}, "a"));
  EXPECT_TRUE(world.engine.leave(kReport, "a"));
  EXPECT_FALSE(world.engine.leave(kReport, "a"));
}

TEST(EngineReset, RemovesTheHolders) {
  World world{"report: { limits: [ 1 concurrent, 5/h ] }"};
  EXPECT_TRUE(world.engine.enter(kReport, "a"));
  EXPECT_FALSE(world.engine.reset(kReport));
  EXPECT_THAT(world.all_left("report", "k"), ElementsAre(1, 5));
  EXPECT_FALSE(world.engine.leave(kReport, "a"));
  EXPECT_TRUE(world.engine.enter(kReport, "b"));
}

// Without a concurrency limit, enter is a take, and leave has no effect.
TEST(EngineEnter, IsATakeWithoutAConcurrencyLimit) {
  World world{"api: { limits: [ 2/h ] }"};
  const Request request{.policy = "api", .key = "k"};
  EXPECT_TRUE(world.engine.enter(request, "a"));
  EXPECT_TRUE(world.engine.enter(request, "a"));
  EXPECT_FALSE(world.engine.enter(request, "a"));
  EXPECT_FALSE(world.engine.leave(request, "a"));
}

// ---- Errors

TEST(EngineEnter, RefusesAnEmptyHolder) {
  World world{"report: { limits: [ 2 concurrent, 5/h ] }"};
  const Verdict verdict = world.engine.enter(kReport, "");
  EXPECT_FALSE(verdict);
  EXPECT_EQ(verdict.error, "the holder is empty");
  EXPECT_THAT(world.all_left("report", "k"), ElementsAre(2, 5));
}

// A take has no holder, so its permits could never be left.
TEST(EngineTake, RefusesPoliciesWithAConcurrencyLimit) {
  World world{"report: { limits: [ 5/h, 2 concurrent ] }"};
  const std::string error =
      "the policy \"report\" has a concurrent limit: enter and leave it instead of taking from it";
  Receipt receipt;
  EXPECT_EQ(world.engine.take(kReport).error, error);
  EXPECT_EQ(world.engine.take(kReport, receipt).error, error);
  Verdict verdict;
  world.engine.take_all({&kReport, 1}, {&verdict, 1});
  EXPECT_EQ(verdict.error, error);
  EXPECT_THAT(world.all_left("report", "k"), ElementsAre(5, 2));
}

// In a full table, new keys share an overflow state. The same holder name under two keys must not
// be one holder: it would renew the other's permit without asking other limits.
TEST(EngineEnter, OverflowKeysShareTheLimitButNotTheHolders) {
  ManualClock clock;
  EngineOptions options = small_on(clock);
  options.memory = {.bytes = 4096 + 5 * 512 + 16384, .record_bytes = 16384};
  Engine engine(policies("c: { limits: [ 2 concurrent, 3/h ] }, full: { limits: [ 1/h ] }"),
                options);
  const auto request = [](const std::string& key) { return Request{.policy = "c", .key = key}; };
  ASSERT_TRUE(engine.enter(request("old"), "its own"));
  for (int i = 0; i < 3000; ++i) {
    (void)engine.take({.policy = "full", .key = std::to_string(i)});
  }
  int admitted = 0;
  for (int i = 0; i < 100; ++i) {
    admitted += engine.enter(request("new " + std::to_string(i)), "h") ? 1 : 0;
  }
  EXPECT_EQ(admitted, 2);
  EXPECT_FALSE(engine.leave(request("old"), "h"));
  EXPECT_TRUE(engine.leave(request("new 0"), "h"));
}

}  // namespace
}  // namespace weir
