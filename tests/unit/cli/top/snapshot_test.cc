#include "cli/top/snapshot.h"

#include <gtest/gtest.h>

namespace weir::cli::top {
namespace {

TEST(TopSnapshot, ParsesTheResponseOfTheDaemon) {
  const auto snapshot = read_snapshot(
      R"({"seconds":93,"uptime_seconds":300,"generation":2,"policies":[{"policy":"login",)"
      R"("allowed":7,"refused":3,"top_allowed":[{"key":"a","cut":true,"count":4,"error":1}],)"
      R"("top_refused":[]}]})");
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(snapshot->seconds, 93);
  EXPECT_EQ(snapshot->uptime, 300);
  EXPECT_EQ(snapshot->generation, 2u);
  ASSERT_EQ(snapshot->policies.size(), 1u);
  const PolicyActivity& policy = snapshot->policies[0];
  EXPECT_EQ(policy.name, "login");
  EXPECT_EQ(policy.allowed, 7u);
  EXPECT_EQ(policy.refused, 3u);
  ASSERT_EQ(policy.top_allowed.size(), 1u);
  EXPECT_EQ(policy.top_allowed[0].text, "a");
  EXPECT_EQ(policy.top_allowed[0].count, 4u);
  EXPECT_EQ(policy.top_allowed[0].error, 1u);
}

TEST(TopSnapshot, RefusesOtherJson) {
  for (const char* body : {"", "[]", "{}", "5", "{\"seconds\":\"x\"}",
                           R"({"seconds":1,"uptime_seconds":1,"generation":1,"policies":[{}]})"}) {
    EXPECT_FALSE(read_snapshot(body)) << body;
  }
}

TEST(TopSnapshot, SortsRowsByRate) {
  const Snapshot before{
      .uptime = 10,
      .policies = {{.name = "a", .allowed = 10, .refused = 5}, {.name = "b", .allowed = 100}}};
  const Snapshot now{.uptime = 12,
                     .policies = {{.name = "a", .allowed = 30, .refused = 6},
                                  {.name = "b", .allowed = 100},
                                  {.name = "c", .allowed = 100}}};
  const auto rows = rows_between(before, now, 2);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].policy.name, "c");
  EXPECT_EQ(rows[0].allowed, 50);
  EXPECT_EQ(rows[1].policy.name, "a");
  EXPECT_EQ(rows[1].allowed, 10);
  EXPECT_EQ(rows[1].refused, 0.5);
  EXPECT_EQ(rows[2].allowed, 0);
}

TEST(TopSnapshot, SortsIdlePoliciesByTotalCount) {
  const Snapshot now{.policies = {{.name = "a"}, {.name = "b", .refused = 1}, {.name = "c"}}};
  const auto rows = rows_between(now, now, 1);
  EXPECT_EQ(rows[0].policy.name + rows[1].policy.name + rows[2].policy.name, "bac");
}

TEST(TopSnapshot, CountsFromZeroAfterARestartOfTheDaemon) {
  const Snapshot before{.uptime = 100, .policies = {{.name = "a", .allowed = 10}}};
  const Snapshot now{.uptime = 1, .policies = {{.name = "a", .allowed = 30}}};
  EXPECT_EQ(rows_between(before, now, 1)[0].allowed, 30);
  // No time has passed: the rate is 0, not a division by zero.
  EXPECT_EQ(rows_between(now, now, 0)[0].allowed, 0);
}

}  // namespace
}  // namespace weir::cli::top
