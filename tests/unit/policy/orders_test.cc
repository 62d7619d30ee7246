#include "policy/orders.h"

#include <gtest/gtest.h>

#include "policy/limit_text.h"

namespace weir::policy {
namespace {

constexpr std::int64_t kHalf = Change::kOne / 2;

std::string changed_text(std::string_view limit, const Change& change) {
  const auto next = changed(*parse_limit(limit), change);
  return next ? to_text(*next) : "flaw";
}

TEST(Change, MultipliesRateAndBurst) {
  const Change twice{.millionths = 2 * Change::kOne};
  EXPECT_EQ(changed_text("100/s burst 20", twice), "200/s burst 40");
  EXPECT_EQ(changed_text("0.5/s", twice), "1/s burst 2");
  EXPECT_EQ(changed_text("10/s queue 5", twice), "20/s queue 10");
  EXPECT_EQ(changed_text("10/s queue 5 delay 2", twice), "20/s queue 10 delay 4");
  EXPECT_EQ(changed_text("10/s queue 5 nodelay", twice), "20/s queue 10 nodelay");
  EXPECT_EQ(changed_text("10/s smooth", twice), "20/s smooth");
  EXPECT_EQ(changed_text("10/s warmup 5s", twice), "20/s warmup 5s");
  EXPECT_EQ(changed_text("10/min window", twice), "20/min window");
  EXPECT_EQ(changed_text("10/min window from first", twice), "20/min window from first");
  EXPECT_EQ(changed_text("10/min sliding", twice), "20/min sliding");
  EXPECT_EQ(changed_text("10/min sliding exact", twice), "20/min sliding exact");
  EXPECT_EQ(changed_text("8 concurrent lease 30s", twice), "16 concurrent lease 30s");
  EXPECT_EQ(changed_text("100000/day in Asia/Shanghai", twice), "200000/day in Asia/Shanghai");
}

TEST(Change, RoundsDownButNotToNothing) {
  EXPECT_EQ(changed_text("5/min window", {.millionths = kHalf}), "2/min window");
  EXPECT_EQ(changed_text("1/min window", {.millionths = kHalf}), "1/min window");
  EXPECT_EQ(changed_text("1/s", {.millionths = kHalf}), "0.5/s");
  EXPECT_EQ(changed_text("3 concurrent lease 1s", {.millionths = 1}), "1 concurrent lease 1s");
  EXPECT_EQ(changed_text("10/s queue 1", {.millionths = kHalf}), "5/s queue 0");
}

// A third has no finite decimal form: the rate is rounded down.
TEST(Change, KeepsARateWithinItsDecimals) {
  EXPECT_EQ(changed_text("1/s burst 10", {.millionths = 333'333}), "0.333333/s burst 3");
  const auto odd = changed(*parse_limit("0.123456789/s burst 10"), {.millionths = 333'333});
  ASSERT_TRUE(odd);
  EXPECT_EQ(std::get<core::Bucket>(*odd).rate.count, 41'152'221);
  EXPECT_EQ(std::get<core::Bucket>(*odd).rate.scale, 1'000'000'000);
}

TEST(Change, AddsToRateAndBurst) {
  EXPECT_EQ(changed_text("100/s burst 20", {.more = 50}), "150/s burst 70");
  EXPECT_EQ(changed_text("0.5/s", {.more = 1}), "1.5/s burst 2");
  EXPECT_EQ(changed_text("10/s queue 5", {.more = 5}), "15/s queue 10");
}

TEST(Change, SaysWhatALimitCannotBecome) {
  EXPECT_EQ(changed_text("4000/s sliding exact", {.millionths = 2 * Change::kOne}), "flaw");
  EXPECT_EQ(changed_text("1/s", {.more = core::kMaxPermits}), "flaw");
}

TEST(Change, IsLeftOutIfALimitCannotFollowIt) {
  std::vector<Limit> limits{{.limit = *parse_limit("4000/s sliding exact")},
                            {.limit = *parse_limit("10/s")}};
  const auto next = under(Change{.millionths = 2 * Change::kOne}, limits);
  EXPECT_EQ(to_text(next[0].limit), "4000/s sliding exact");
  EXPECT_EQ(to_text(next[1].limit), "20/s");
}

}  // namespace
}  // namespace weir::policy
