#include "core/node_share.h"

#include <gtest/gtest.h>

#include "at.h"

namespace weir::core {
namespace {

using std::chrono::seconds;

constexpr Rate kTenASecond{.count = 10};

TEST(NodeShare, DividesTheRateAndTheBurstOfABucket) {
  const auto share = std::get<Bucket>(divide_among(*Bucket::make(kTenASecond, 30), 3));
  EXPECT_EQ(share.capacity, 10);
  EXPECT_EQ(share.interval.price / share.interval.parts, 300'000'000);
}

TEST(NodeShare, IsTheWholeLimitForOneNode) {
  const auto share = std::get<Bucket>(divide_among(*Bucket::make(kTenASecond, 30), 1));
  EXPECT_EQ(share.capacity, 30);
  EXPECT_EQ(share.stamp, Bucket::make(kTenASecond, 30)->stamp);
}

TEST(NodeShare, RoundsACountDownToAtLeastOne) {
  const Window window{.count = 10, .period = seconds{60}};
  EXPECT_EQ(std::get<Window>(divide_among(window, 3)).count, 3);
  EXPECT_EQ(std::get<Window>(divide_among(window, 50)).count, 1);
  EXPECT_EQ(std::get<Concurrency>(divide_among(Concurrency{.count = 8}, 3)).count, 2);
  EXPECT_EQ(std::get<SlidingLog>(divide_among(SlidingLog{.count = 9}, 2)).count, 4);
}

TEST(NodeShare, DividesThePlacesOfAQueue) {
  const auto share = std::get<Bucket>(divide_among(*Bucket::make_queue(kTenASecond, 29, 0), 3));
  EXPECT_TRUE(share.queue);
  EXPECT_EQ(share.capacity, 10);
  EXPECT_EQ(share.at_once, 1);
}

TEST(NodeShare, DividesTheRateOfASmoothLimiter) {
  const auto share = std::get<Smooth>(divide_among(*Smooth::make(kTenASecond), 5));
  EXPECT_EQ(share.interval.price / share.interval.parts, 500'000'000);
  const auto warming =
      std::get<Smooth>(divide_among(*Smooth::make_warming(kTenASecond, seconds{9}), 5));
  EXPECT_EQ(warming.warmup, seconds{9});
}

// For any number of nodes.
TEST(NodeShare, AddsUpToNoMoreThanTheLimit) {
  for (const Permits nodes : {2, 3, 7, 10}) {
    const Limit limit = *Bucket::make(kTenASecond, 100);
    const Limit share = divide_among(limit, nodes);
    EXPECT_LE(capacity(share) * nodes, capacity(limit));
    const auto& one = std::get<Bucket>(share);
    const auto& all = std::get<Bucket>(limit);
    EXPECT_GE(one.interval.price * all.interval.parts,
              all.interval.price * one.interval.parts * nodes);
  }
}

// The part would be slower than the longest period allows.
TEST(NodeShare, IsAValidLimitForTheSlowestRate) {
  const Rate slow{.count = 1, .period = kLongestDebt};
  const auto share = std::get<Bucket>(divide_among(*Bucket::make(slow, 1), 100));
  EXPECT_EQ(share.capacity, 1);
}

// ---- Limits with scope `split`

TEST(Portion, GivesTheRemainderToTheFirstNodes) {
  for (const Permits count : {1, 2, 3, 10, 101}) {
    for (const Permits nodes : {1, 2, 3, 7}) {
      Permits sum = 0;
      for (Permits rank = 0; rank < nodes; ++rank) {
        sum += portion(count, nodes, rank);
        EXPECT_GE(portion(count, nodes, 0), portion(count, nodes, rank));
        EXPECT_LE(portion(count, nodes, 0) - portion(count, nodes, rank), 1);
      }
      EXPECT_EQ(sum, count);
    }
  }
}

// If parts filled faster, their sum would exceed the rate.
TEST(SplitPart, FillsInTheSameTimeAsTheWholeBucket) {
  const Bucket whole = *Bucket::make({.count = 7}, 10);
  for (Permits part = 1; part <= 10; ++part) {
    const Bucket share = part_of(whole, part);
    EXPECT_EQ(share.capacity, part);
    EXPECT_GE(filling_time(share), filling_time(whole));
    EXPECT_LE(filling_time(share) - filling_time(whole), Nanos{10});
  }
}

TEST(SplitPart, IsTheBucketItselfForTheWholeCapacity) {
  const Bucket whole = *Bucket::make({.count = 7}, 10);
  EXPECT_EQ(part_of(whole, 10).stamp, whole.stamp);
  EXPECT_EQ(part_of(whole, 10).depth, whole.depth);
}

TEST(SplitPart, AdmitsAtLeastOneCallAtOnceInAQueue) {
  const Bucket share = part_of(*Bucket::make_queue(kTenASecond, 29, 4), 10);
  EXPECT_TRUE(share.queue);
  EXPECT_EQ(share.capacity, 10);
  EXPECT_EQ(share.at_once, 1);
  EXPECT_EQ(part_of(*Bucket::make_queue(kTenASecond, 29, 29), 10).at_once, 10);
}

TEST(SplitPart, HasTheGivenCountInAWindow) {
  const Window window{.count = 10, .period = seconds{60}};
  EXPECT_EQ(std::get<Window>(part_of(Limit{window}, 3)).count, 3);
  EXPECT_EQ(std::get<Window>(part_of(Limit{window}, 3)).period, seconds{60});
  EXPECT_EQ(std::get<SlidingLog>(part_of(Limit{SlidingLog{.count = 9}}, 4)).count, 4);
}

TEST(SplitPart, ExistsForAlgorithmsThatDivideByCapacity) {
  EXPECT_TRUE(can_be_split(*Bucket::make(kTenASecond, 30)));
  EXPECT_TRUE(can_be_split(Window{}));
  EXPECT_TRUE(can_be_split(SlidingCounter{}));
  EXPECT_TRUE(can_be_split(SlidingLog{}));
  EXPECT_TRUE(can_be_split(CalendarWindow{}));
  EXPECT_FALSE(can_be_split(*Smooth::make(kTenASecond)));
  EXPECT_FALSE(can_be_split(NginxQueue{}));
  EXPECT_FALSE(can_be_split(Concurrency{}));
  EXPECT_FALSE(can_be_split(RedisCell{}));
}

TEST(SplitPart, ReportsWhenItsUsageNoLongerCounts) {
  EXPECT_EQ(usage_expires_at(*Bucket::make(kTenASecond, 30), kStart), kStart + seconds{3});
  EXPECT_EQ(usage_expires_at(Window{.period = seconds{5}}, kStart), kStart + seconds{5});
  EXPECT_EQ(usage_expires_at(SlidingCounter{.period = seconds{5}}, kStart), kStart + seconds{10});
  EXPECT_EQ(usage_expires_at(SlidingLog{.period = seconds{5}}, kStart), kStart + seconds{5});
}

// ---- Buckets that start empty

TEST(StartingEmpty, AdmitsNothingAtFirstAndFillsAtItsRate) {
  Key<Bucket> key{starting_empty(*Bucket::make(kTenASecond, 30), kStart)};
  EXPECT_EQ(key.take(seconds{0}).retry_after, milliseconds{100});
  EXPECT_EQ(key.peek(milliseconds{99}).remaining, 0);
  EXPECT_EQ(key.admits(milliseconds{100}, 5), 1);
  EXPECT_EQ(key.admits(seconds{1}, 50), 9);
  EXPECT_EQ(key.admits(seconds{9}, 50), 30);
}

TEST(StartingEmpty, IsFullAfterItsFillingTimeForAKeyNeverSeen) {
  const Bucket limit = starting_empty(*Bucket::make(kTenASecond, 30), kStart);
  EXPECT_EQ(limit.full_at, kStart + seconds{3});
  EXPECT_EQ(rest_at(limit, {}, kStart), kStart + seconds{3});
  EXPECT_EQ(remaining(limit, {}, kStart + seconds{1}), 10);
  EXPECT_EQ(remaining(limit, {}, kStart + seconds{3}), 30);
}

TEST(StartingEmpty, KeepsALargerDebt) {
  Key<Bucket> key{*Bucket::make(kTenASecond, 30)};
  key.debit(seconds{0}, 50);
  key.change(starting_empty(*Bucket::make(kTenASecond, 30), kStart), kStart);
  EXPECT_EQ(key.take(seconds{0}).retry_after, milliseconds{2100});
}

TEST(StartingEmpty, ContinuesAtAnotherPrice) {
  Key<Bucket> key{starting_empty(*Bucket::make(kTenASecond, 30), kStart)};
  key.change(part_of(*Bucket::make(kTenASecond, 30), 15), kStart + seconds{1});
  // Twenty of thirty permits were owed; the same number is owed of fifteen.
  EXPECT_EQ(key.peek(seconds{1}).remaining, 0);
  EXPECT_EQ(key.take(seconds{1}).retry_after, milliseconds{1200});
  EXPECT_EQ(key.admits(milliseconds{2200}, 9), 1);
}

TEST(StartingEmpty, IsOverOnceItHasFilled) {
  const Bucket whole = *Bucket::make(kTenASecond, 30);
  const Bucket empty = starting_empty(whole, kStart);
  EXPECT_EQ(inheriting_start(whole, empty, kStart + seconds{3}).narrow, whole.narrow);
  EXPECT_LT(inheriting_start(whole, empty, kStart + seconds{2}).narrow, whole.narrow);
}

}  // namespace
}  // namespace weir::core
