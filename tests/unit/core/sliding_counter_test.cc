#include "core/sliding_counter.h"

#include <gtest/gtest.h>

#include "at.h"

namespace weir::core {
namespace {

// 40 % into the window, 60 % of the previous window count.
TEST(SlidingCounter, WeightsThePreviousWindowByTheFractionStillCovered) {
  auto sliding = key(SlidingCounter::make(per(10, seconds{10})));
  EXPECT_EQ(sliding.admits(seconds{5}, 20), 10);
  EXPECT_EQ(sliding.peek(seconds{14}).remaining, 4);
  EXPECT_EQ(sliding.admits(seconds{14}, 20), 4);
  EXPECT_EQ(sliding.admits(seconds{15}, 20), 1);
}

// There is no 2N at the boundary: calls of the new window pass as the weight of the old one falls.
TEST(SlidingCounter, AdmitsNothingJustAfterAFullWindow) {
  auto sliding = key(SlidingCounter::make(per(10, seconds{10})));
  EXPECT_EQ(sliding.admits(seconds{10} - Nanos{1}, 20), 10);
  EXPECT_EQ(sliding.admits(seconds{10}, 20), 0);
  EXPECT_EQ(sliding.peek(seconds{10}).retry_after, seconds{1});
  EXPECT_EQ(sliding.admits(seconds{11}, 20), 1);
}

TEST(SlidingCounter, ReportsTheRetryInThisWindowOrInTheNext) {
  auto sliding = key(SlidingCounter::make(per(10, seconds{10})));
  EXPECT_EQ(sliding.admits(seconds{5}, 10), 10);
  // No call passes in this window; in the next one, once the weighted count has fallen by one.
  EXPECT_EQ(sliding.peek(seconds{5}).retry_after, seconds{6});
  EXPECT_EQ(sliding.peek(seconds{5}, {.cost = 10}).retry_after, seconds{15});
  EXPECT_EQ(sliding.peek(seconds{12}, {.cost = 3}).retry_after, seconds{1});
}

TEST(SlidingCounter, IsAtRestAtTheEndOfTheNextWindow) {
  auto sliding = key(SlidingCounter::make(per(10, seconds{10})));
  EXPECT_EQ(sliding.take(seconds{5}).reset_after, seconds{15});
  EXPECT_EQ(sliding.peek(seconds{20} - Nanos{1}).remaining, 9);
  EXPECT_EQ(sliding.peek(seconds{20}).remaining, 10);
}

TEST(SlidingCounter, KeepsItsWindowWhenTheClockStepsBack) {
  auto sliding = key(SlidingCounter::make(per(10, seconds{10})));
  EXPECT_EQ(sliding.admits(seconds{12}, 8), 8);
  EXPECT_EQ(sliding.admits(seconds{2}, 20), 2);
  EXPECT_EQ(sliding.peek(seconds{2}).remaining, 0);
}

TEST(SlidingCounterRefund, GivesBackOnlyInTheSameWindow) {
  auto sliding = key(SlidingCounter::make(per(10, seconds{10})));
  Receipt receipt = sliding.taken(seconds{1}, {.cost = 6});
  sliding.refund(seconds{2}, receipt, 2);
  EXPECT_EQ(sliding.peek(seconds{2}).remaining, 6);
  sliding.refund(seconds{11}, receipt, 4);
  EXPECT_EQ(receipt.taken, 4);
  EXPECT_EQ(sliding.peek(seconds{15}).remaining, 8);
}

// Otherwise a caller whose clock is behind would count the previous windows anew.
TEST(SlidingCounterRefund, KeepsTheInstantWhenEverythingIsGivenBack) {
  auto sliding = key(SlidingCounter::make(per(10, seconds{10})));
  EXPECT_EQ(sliding.admits(seconds{9}, 10), 10);
  Receipt receipt = sliding.taken(seconds{20}, {.cost = 2});
  sliding.refund(seconds{20}, receipt, 2);
  EXPECT_EQ(sliding.peek(seconds{20}).reset_after, Nanos{0});
  EXPECT_EQ(sliding.admits(seconds{9}, 20), 10) << "those of the new window";
  EXPECT_EQ(sliding.admits(seconds{20}, 20), 0);
}

TEST(SlidingCounter, RejectsACountBeyondItsCounters) {
  EXPECT_TRUE(SlidingCounter::make(per_second(kMaxSliding)));
  EXPECT_EQ(SlidingCounter::make(per_second(kMaxSliding + 1)).error(), Flaw::capacity_too_large);
  auto sliding = key(SlidingCounter::make(per_second(kMaxSliding)));
  sliding.debit(Nanos{0}, kMaxPermits);
  EXPECT_EQ(sliding.peek(Nanos{0}).remaining, 0);
  EXPECT_EQ(sliding.peek(seconds{2}).remaining, kMaxSliding);
}

}  // namespace
}  // namespace weir::core
