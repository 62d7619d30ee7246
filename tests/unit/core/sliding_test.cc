#include "core/sliding.h"

#include <gtest/gtest.h>

#include "at.h"

namespace weir::core {
namespace {

// 40 % into the window, 60 % of the previous ten count.
TEST(Sliding, WeighsThePreviousWindowByWhatItStillCovers) {
  auto sliding = key(Sliding::make(per(10, seconds{10})));
  EXPECT_EQ(sliding.admits(seconds{5}, 20), 10);
  EXPECT_EQ(sliding.peek(seconds{14}).remaining, 4);
  EXPECT_EQ(sliding.admits(seconds{14}, 20), 4);
  EXPECT_EQ(sliding.admits(seconds{15}, 20), 1);
}

// No 2N at the edge: the first of the new window pass as the old one fades.
TEST(Sliding, AdmitsNothingJustAfterAFullWindow) {
  auto sliding = key(Sliding::make(per(10, seconds{10})));
  EXPECT_EQ(sliding.admits(seconds{10} - Nanos{1}, 20), 10);
  EXPECT_EQ(sliding.admits(seconds{10}, 20), 0);
  EXPECT_EQ(sliding.peek(seconds{10}).retry_after, seconds{1});
  EXPECT_EQ(sliding.admits(seconds{11}, 20), 1);
}

TEST(Sliding, PromisesTheInstantInThisWindowOrInTheNext) {
  auto sliding = key(Sliding::make(per(10, seconds{10})));
  EXPECT_EQ(sliding.admits(seconds{5}, 10), 10);
  // In this window nothing more passes; in the next one, once one of ten has faded.
  EXPECT_EQ(sliding.peek(seconds{5}).retry_after, seconds{6});
  EXPECT_EQ(sliding.peek(seconds{5}, {.cost = 10}).retry_after, seconds{15});
  EXPECT_EQ(sliding.peek(seconds{12}, {.cost = 3}).retry_after, seconds{1});
}

TEST(Sliding, RestsAtTheEndOfTheNextWindow) {
  auto sliding = key(Sliding::make(per(10, seconds{10})));
  EXPECT_EQ(sliding.take(seconds{5}).reset_after, seconds{15});
  EXPECT_EQ(sliding.peek(seconds{20} - Nanos{1}).remaining, 9);
  EXPECT_EQ(sliding.peek(seconds{20}).remaining, 10);
}

TEST(Sliding, StaysWhereItWasWhenTheClockStepsBack) {
  auto sliding = key(Sliding::make(per(10, seconds{10})));
  EXPECT_EQ(sliding.admits(seconds{12}, 8), 8);
  EXPECT_EQ(sliding.admits(seconds{2}, 20), 2);
  EXPECT_EQ(sliding.peek(seconds{2}).remaining, 0);
}

TEST(SlidingRefund, CountsOnlyWhileItsWindowIsCurrent) {
  auto sliding = key(Sliding::make(per(10, seconds{10})));
  Receipt receipt = sliding.taken(seconds{1}, {.cost = 6});
  sliding.refund(seconds{2}, receipt, 2);
  EXPECT_EQ(sliding.peek(seconds{2}).remaining, 6);
  sliding.refund(seconds{11}, receipt, 4);
  EXPECT_EQ(receipt.taken, 4);
  EXPECT_EQ(sliding.peek(seconds{15}).remaining, 8);
}

// Or else somebody whose clock is behind would not know of the windows before.
TEST(SlidingRefund, OfEverythingDoesNotTurnTimeBack) {
  auto sliding = key(Sliding::make(per(10, seconds{10})));
  EXPECT_EQ(sliding.admits(seconds{9}, 10), 10);
  Receipt receipt = sliding.taken(seconds{20}, {.cost = 2});
  sliding.refund(seconds{20}, receipt, 2);
  EXPECT_EQ(sliding.peek(seconds{20}).reset_after, Nanos{0});
  EXPECT_EQ(sliding.admits(seconds{9}, 20), 10) << "those of the new window";
  EXPECT_EQ(sliding.admits(seconds{20}, 20), 0);
}

TEST(Sliding, CannotCountBeyondItsCounters) {
  EXPECT_TRUE(Sliding::make(per_second(kMaxSliding)));
  EXPECT_EQ(Sliding::make(per_second(kMaxSliding + 1)).error(), Flaw::capacity_too_large);
  auto sliding = key(Sliding::make(per_second(kMaxSliding)));
  sliding.debit(Nanos{0}, kMaxPermits);
  EXPECT_EQ(sliding.peek(Nanos{0}).remaining, 0);
  EXPECT_EQ(sliding.peek(seconds{2}).remaining, kMaxSliding);
}

}  // namespace
}  // namespace weir::core
