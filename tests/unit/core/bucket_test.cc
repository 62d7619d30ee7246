#include "core/bucket.h"

#include <gtest/gtest.h>

#include "at.h"

namespace weir::core {
namespace {

// Fifty calls at once: thirty pass and count down, the next is due one interval later.
TEST(Bucket, AdmitsItsBurstAndThenOneInEachInterval) {
  auto bucket = key(Bucket::make(per_second(20), 30));
  for (Permits left = 29; left >= 0; --left) {
    const Decision passed = bucket.take(Nanos{0});
    ASSERT_TRUE(passed);
    EXPECT_EQ(passed.limit, 30);
    EXPECT_EQ(passed.remaining, left);
    EXPECT_EQ(passed.retry_after, Nanos{0});
    EXPECT_EQ(passed.reset_after, (30 - left) * milliseconds{50});
    EXPECT_EQ(passed.wait, Nanos{0});
  }
  for (int i = 0; i < 20; ++i) {
    const Decision refused = bucket.take(Nanos{0});
    EXPECT_EQ(refused.outcome, Outcome::limited);
    EXPECT_EQ(refused.remaining, 0);
    EXPECT_EQ(refused.retry_after, milliseconds{50});
    EXPECT_EQ(refused.reset_after, milliseconds{1500});
  }
  EXPECT_EQ(bucket.admits(milliseconds{50} - Nanos{1}, 1), 0);
  EXPECT_EQ(bucket.admits(milliseconds{50}, 2), 1);
  EXPECT_EQ(bucket.peek(milliseconds{50}, {.cost = 31}).outcome, Outcome::impossible);
}

// A third of a second is no whole number of nanoseconds, and three of them are a second all the
// same, for as long as one likes.
TEST(Bucket, DoesNotDriftAtThreeASecond) {
  auto steady = key(Bucket::make(per_second(3), 3));
  for (int second = 0; second < 1000; ++second) {
    EXPECT_EQ(steady.admits(seconds{second}, 4), 3) << second;
  }
  // From three used up, the third comes back with the end of the second and not before.
  EXPECT_EQ(steady.peek(seconds{1000} - Nanos{1}).remaining, 2);
  EXPECT_EQ(steady.peek(seconds{1000}).remaining, 3);
}

TEST(Bucket, RestsOnceEverythingIsPaid) {
  auto bucket = key(Bucket::make(per_second(3), 3));
  (void)bucket.take(Nanos{0});
  EXPECT_EQ(bucket.peek(Nanos{0}).reset_after, Nanos{333'333'334});
  EXPECT_EQ(bucket.peek(Nanos{333'333'333}).remaining, 2);
  EXPECT_EQ(bucket.peek(Nanos{333'333'334}).remaining, 3);
  EXPECT_EQ(bucket.peek(Nanos{333'333'334}).reset_after, Nanos{0});
}

// A caller that would wait may go into debt, and waits until the bucket is back at its burst.
TEST(Bucket, LetsPatientCallersReserve) {
  auto bucket = key(Bucket::make(per_second(10), 2));
  EXPECT_EQ(bucket.admits(Nanos{0}, 3), 2);
  EXPECT_EQ(bucket.take(Nanos{0}, {.max_wait = milliseconds{99}}).retry_after, Nanos{1'000'000});
  EXPECT_EQ(bucket.take(Nanos{0}, {.max_wait = milliseconds{100}}).wait, milliseconds{100});
  EXPECT_EQ(bucket.take(Nanos{0}, {.cost = 2, .max_wait = kForever}).wait, milliseconds{300});
  EXPECT_EQ(bucket.take(Nanos{0}).retry_after, milliseconds{400});
}

// NTP may step the clock back; the bucket must not refill.
TEST(Bucket, GivesNothingForAClockThatStepsBack) {
  auto bucket = key(Bucket::make(per_second(10), 5));
  EXPECT_EQ(bucket.admits(seconds{10}, 9), 5);
  EXPECT_EQ(bucket.admits(seconds{9}, 9), 0);
  EXPECT_EQ(bucket.admits(seconds{10}, 9), 0);
  EXPECT_EQ(bucket.admits(seconds{10} + milliseconds{100}, 9), 1);
}

TEST(Bucket, GoesIntoDebtWhenDebited) {
  auto bucket = key(Bucket::make(per_second(10), 5));
  bucket.debit(Nanos{0}, 8);
  EXPECT_EQ(bucket.peek(Nanos{0}).remaining, 0);
  EXPECT_EQ(bucket.peek(Nanos{0}).retry_after, milliseconds{400});
  EXPECT_EQ(bucket.peek(milliseconds{400}).outcome, Outcome::allowed);
}

// One at once, five wait their turns, the rest are sent away.
TEST(Queue, SpacesItsCallersEvenly) {
  auto queue = key(Bucket::make_queue(per_second(1), 5, 0));
  for (int turn = 0; turn <= 5; ++turn) {
    const Decision passed = queue.take(Nanos{0}, {.max_wait = kForever});
    ASSERT_TRUE(passed);
    EXPECT_EQ(passed.wait, seconds{turn});
    EXPECT_EQ(passed.limit, 6);
    EXPECT_EQ(passed.remaining, 5 - turn);
  }
  const Decision refused = queue.take(Nanos{0}, {.max_wait = kForever});
  EXPECT_EQ(refused.outcome, Outcome::limited);
  EXPECT_EQ(refused.retry_after, seconds{1});
}

TEST(Queue, DoesNotDelayTheFirstOnes) {
  auto queue = key(Bucket::make_queue(per_second(1), 5, 3));
  std::vector<Nanos> waits;
  for (int i = 0; i < 6; ++i) waits.push_back(queue.take(Nanos{0}, {.max_wait = kForever}).wait);
  EXPECT_EQ(waits,
            (std::vector<Nanos>{Nanos{0}, Nanos{0}, Nanos{0}, Nanos{0}, seconds{1}, seconds{2}}));
}

// With nodelay a queue is a bucket; with no places it admits one per interval.
TEST(Queue, IsABucketWhenNobodyWaits) {
  auto nodelay = key(Bucket::make_queue(per_second(1), 5, 5));
  EXPECT_EQ(nodelay.admits(Nanos{0}, 10), 6);
  auto none = key(Bucket::make_queue(per_second(1), 0, 0));
  EXPECT_EQ(none.admits(Nanos{0}, 10), 1);
  EXPECT_EQ(none.admits(seconds{1}, 10), 1);
}

TEST(Queue, RefusesWhoWouldHaveToWaitTooLong) {
  auto queue = key(Bucket::make_queue(per_second(1), 5, 0));
  (void)queue.take(Nanos{0});
  EXPECT_EQ(queue.take(Nanos{0}, {.max_wait = milliseconds{400}}).retry_after, milliseconds{600});
  EXPECT_EQ(queue.take(milliseconds{600}, {.max_wait = milliseconds{400}}).wait, milliseconds{400});
}

// 10/min used up, raised to 20/min: 10 remain, and refill twice as fast from then on.
TEST(ChangedBucket, KeepsWhatWasUsed) {
  auto bucket = key(Bucket::make(per(10, minutes{1}), 10));
  EXPECT_EQ(bucket.admits(Nanos{0}, 20), 10);
  bucket.change(*Bucket::make(per(20, minutes{1}), 20), kStart);
  EXPECT_EQ(bucket.peek(Nanos{0}).remaining, 10);
  EXPECT_EQ(bucket.peek(seconds{3}).remaining, 11);
  EXPECT_EQ(bucket.peek(seconds{30}).remaining, 20);
  EXPECT_EQ(bucket.admits(Nanos{0}, 20), 10);
}

TEST(ChangedBucket, LeavesNothingWhenLoweredBelowWhatWasUsed) {
  auto bucket = key(Bucket::make(per_second(10), 10));
  EXPECT_EQ(bucket.admits(Nanos{0}, 8), 8);
  bucket.change(*Bucket::make(per_second(5), 5), kStart);
  EXPECT_EQ(bucket.peek(Nanos{0}).remaining, 0);
  EXPECT_EQ(bucket.peek(Nanos{0}).retry_after, 4 * milliseconds{200});
}

// Seven of a hundred used at 70000/s are seven, though their price is no whole nanosecond.
TEST(ChangedBucket, KeepsWhatWasUsedAtARateOfOddPrice) {
  auto bucket = key(Bucket::make(per_second(70'000), 100));
  EXPECT_EQ(bucket.admits(Nanos{0}, 7), 7);
  bucket.change(*Bucket::make(per_second(1), 100), kStart);
  EXPECT_EQ(bucket.peek(Nanos{0}).remaining, 93);
}

// Changed from 1000/s to one an hour, then given one more place a second later: whoever used a
// thousand has not paid for them in that second, because one an hour was in force.
TEST(ChangedBucket, KeepsWhatWasUsedThroughTwoChangesWithoutACall) {
  auto bucket = key(Bucket::make(per_second(1000), 1000));
  EXPECT_EQ(bucket.admits(Nanos{0}, 1000), 1000);
  bucket.change(*Bucket::make(per(1, hours{1}), 1000), kStart);
  EXPECT_EQ(bucket.peek(seconds{1}).remaining, 0);
  bucket.change(*Bucket::make(per(1, hours{1}), 1001), kStart + seconds{1});
  EXPECT_LE(bucket.peek(seconds{1}).remaining, 1);
}

// A state that nobody visits keeps its old price until it is looked at; the permits owed then
// count.
TEST(ChangedBucket, IsRepricedWhenLookedAtIfNobodyVisits) {
  auto bucket = key(Bucket::make(per(10, minutes{1}), 10));
  EXPECT_EQ(bucket.admits(Nanos{0}, 20), 10);
  bucket.limit = *Bucket::make(per(20, minutes{1}), 20);
  EXPECT_EQ(bucket.peek(Nanos{0}).remaining, 10);
  EXPECT_EQ(bucket.peek(seconds{30}).remaining, 15);
}

TEST(ChangedBucket, LeavesAKeyAloneThatWasNeverSeen) {
  const Bucket from = *Bucket::make(per_second(1), 1);
  const Bucket to = *Bucket::make(per_second(2), 2);
  EXPECT_EQ(reprice(from, to, State{}, kStart), State{});
}

TEST(Bucket, CannotBeMadeOfNumbersThatMeanNothing) {
  EXPECT_EQ(Bucket::make(per_second(1), 0).error(), Flaw::capacity_too_small);
  EXPECT_EQ(Bucket::make(per_second(1), kMaxPermits + 1).error(), Flaw::capacity_too_large);
  EXPECT_EQ(Bucket::make(per_second(0), 1).error(), Flaw::rate_not_positive);
  EXPECT_EQ(Bucket::make_queue(per_second(1), -1, 0).error(), Flaw::capacity_too_small);
  EXPECT_EQ(Bucket::make_queue(per_second(1), 0, -1).error(), Flaw::capacity_too_small);
  EXPECT_EQ(Bucket::make_queue(per_second(1), kMaxPermits, 0).error(), Flaw::capacity_too_large);
}

}  // namespace
}  // namespace weir::core
