#include "core/bucket.h"

#include <gtest/gtest.h>

#include "at.h"

namespace weir::core {
namespace {

// Of fifty calls at one instant, thirty pass and leave 29, 28, … 0 permits. One more passes an
// emission interval later.
TEST(Bucket, AdmitsItsBurstAndThenOneCallPerInterval) {
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

// A third of a second is not a whole number of nanoseconds, but three of them must always be
// exactly a second.
TEST(Bucket, DoesNotDriftAtThreeASecond) {
  auto steady = key(Bucket::make(per_second(3), 3));
  for (int second = 0; second < 1000; ++second) {
    EXPECT_EQ(steady.admits(seconds{second}, 4), 3) << second;
  }
  // After three are used, the third is available again exactly at the end of the second.
  EXPECT_EQ(steady.peek(seconds{1000} - Nanos{1}).remaining, 2);
  EXPECT_EQ(steady.peek(seconds{1000}).remaining, 3);
}

TEST(Bucket, IsAtRestOnceItsDebtHasDrained) {
  auto bucket = key(Bucket::make(per_second(3), 3));
  (void)bucket.take(Nanos{0});
  EXPECT_EQ(bucket.peek(Nanos{0}).reset_after, Nanos{333'333'334});
  EXPECT_EQ(bucket.peek(Nanos{333'333'333}).remaining, 2);
  EXPECT_EQ(bucket.peek(Nanos{333'333'334}).remaining, 3);
  EXPECT_EQ(bucket.peek(Nanos{333'333'334}).reset_after, Nanos{0});
}

// A caller that would wait may go into debt, and waits until the debt is back at the depth.
TEST(Bucket, LetsCallersThatWaitReserve) {
  auto bucket = key(Bucket::make(per_second(10), 2));
  EXPECT_EQ(bucket.admits(Nanos{0}, 3), 2);
  EXPECT_EQ(bucket.take(Nanos{0}, {.max_wait = milliseconds{99}}).retry_after, Nanos{1'000'000});
  EXPECT_EQ(bucket.take(Nanos{0}, {.max_wait = milliseconds{100}}).wait, milliseconds{100});
  EXPECT_EQ(bucket.take(Nanos{0}, {.cost = 2, .max_wait = kForever}).wait, milliseconds{300});
  EXPECT_EQ(bucket.take(Nanos{0}).retry_after, milliseconds{400});
}

// NTP may step the clock back; the bucket must not refill.
TEST(Bucket, DoesNotRefillWhenTheClockStepsBack) {
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

// One call passes at once, five wait for their turns, the rest are refused.
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

TEST(Queue, DoesNotDelayUndelayedCalls) {
  auto queue = key(Bucket::make_queue(per_second(1), 5, 3));
  std::vector<Nanos> waits;
  for (int i = 0; i < 6; ++i) waits.push_back(queue.take(Nanos{0}, {.max_wait = kForever}).wait);
  EXPECT_EQ(waits,
            (std::vector<Nanos>{Nanos{0}, Nanos{0}, Nanos{0}, Nanos{0}, seconds{1}, seconds{2}}));
}

// With nodelay a queue is a bucket; with no places it admits one call per interval.
TEST(Queue, IsABucketWhenNoCallerWaits) {
  auto nodelay = key(Bucket::make_queue(per_second(1), 5, 5));
  EXPECT_EQ(nodelay.admits(Nanos{0}, 10), 6);
  auto none = key(Bucket::make_queue(per_second(1), 0, 0));
  EXPECT_EQ(none.admits(Nanos{0}, 10), 1);
  EXPECT_EQ(none.admits(seconds{1}, 10), 1);
}

TEST(Queue, RefusesCallersThatWouldWaitTooLong) {
  auto queue = key(Bucket::make_queue(per_second(1), 5, 0));
  (void)queue.take(Nanos{0});
  EXPECT_EQ(queue.take(Nanos{0}, {.max_wait = milliseconds{400}}).retry_after, milliseconds{600});
  EXPECT_EQ(queue.take(milliseconds{600}, {.max_wait = milliseconds{400}}).wait, milliseconds{400});
}

// 10/min used up and raised to 20/min: 10 remain, and it refills twice as fast from then on.
TEST(ChangedBucket, KeepsItsUsage) {
  auto bucket = key(Bucket::make(per(10, minutes{1}), 10));
  EXPECT_EQ(bucket.admits(Nanos{0}, 20), 10);
  bucket.change(*Bucket::make(per(20, minutes{1}), 20), kStart);
  EXPECT_EQ(bucket.peek(Nanos{0}).remaining, 10);
  EXPECT_EQ(bucket.peek(seconds{3}).remaining, 11);
  EXPECT_EQ(bucket.peek(seconds{30}).remaining, 20);
  EXPECT_EQ(bucket.admits(Nanos{0}, 20), 10);
}

TEST(ChangedBucket, HasNothingRemainingWhenLoweredBelowItsUsage) {
  auto bucket = key(Bucket::make(per_second(10), 10));
  EXPECT_EQ(bucket.admits(Nanos{0}, 8), 8);
  bucket.change(*Bucket::make(per_second(5), 5), kStart);
  EXPECT_EQ(bucket.peek(Nanos{0}).remaining, 0);
  EXPECT_EQ(bucket.peek(Nanos{0}).retry_after, 4 * milliseconds{200});
}

// Seven of a hundred used at 70000/s stay seven, although the price is not a whole nanosecond.
TEST(ChangedBucket, KeepsItsUsageAtAFractionalPrice) {
  auto bucket = key(Bucket::make(per_second(70'000), 100));
  EXPECT_EQ(bucket.admits(Nanos{0}, 7), 7);
  bucket.change(*Bucket::make(per_second(1), 100), kStart);
  EXPECT_EQ(bucket.peek(Nanos{0}).remaining, 93);
}

// Another node wrote the state at a lower price than this node had then.
TEST(ChangedBucket, DrainsAStateOfAnotherNodeAtTheSlowerPriceUntilTheNextChange) {
  const Bucket fast = *Bucket::make(per_second(1), 100);
  auto bucket = key(Bucket::make(per(1, minutes{1}), 100));
  bucket.change(*Bucket::make(per(2, minutes{1}), 100), kStart - hours{1});
  bucket.change(*Bucket::make(per(1, minutes{1}), 100), kStart + minutes{5});
  const State used = debit(fast, {}, kStart, 100);
  const Instant now = kStart + minutes{10};
  const State state = state_under_current_limit(
      bucket.limit, DatedState{used, fast.interval, kStart}, now, &bucket.prices);
  EXPECT_EQ(remaining(bucket.limit, state, now), 5 * 2 + 5);
}

// The limit changes from 1000/s to one an hour, and a second later its capacity grows by one. The
// thousand permits used before have not drained in that second, because one an hour was in force.
TEST(ChangedBucket, KeepsItsUsageThroughTwoChangesWithoutACall) {
  auto bucket = key(Bucket::make(per_second(1000), 1000));
  EXPECT_EQ(bucket.admits(Nanos{0}, 1000), 1000);
  bucket.change(*Bucket::make(per(1, hours{1}), 1000), kStart);
  EXPECT_EQ(bucket.peek(seconds{1}).remaining, 0);
  bucket.change(*Bucket::make(per(1, hours{1}), 1001), kStart + seconds{1});
  EXPECT_LE(bucket.peek(seconds{1}).remaining, 1);
}

// After a restart the time of the change is unknown: the permits owed at the next access count.
TEST(ChangedBucket, IsRepricedAtTheNextAccessIfTheTimeOfTheChangeIsUnknown) {
  auto bucket = key(Bucket::make(per(10, minutes{1}), 10));
  EXPECT_EQ(bucket.admits(Nanos{0}, 20), 10);
  bucket.limit = *Bucket::make(per(20, minutes{1}), 20);
  EXPECT_EQ(bucket.peek(Nanos{0}).remaining, 10);
  EXPECT_EQ(bucket.peek(seconds{30}).remaining, 15);
}

TEST(ChangedBucket, DoesNotChangeAKeyThatWasNeverSeen) {
  auto bucket = key(Bucket::make(per_second(1), 1));
  bucket.change(*Bucket::make(per_second(2), 2), kStart + seconds{1});
  EXPECT_EQ(bucket.peek(seconds{1}).remaining, 2);
}

// 10/min used up, 1/min for half a minute, then 10/min again: half a permit has drained.
TEST(ChangedBucket, CountsTheTimeInBetweenWhenItChangesBack) {
  auto bucket = key(Bucket::make(per(10, minutes{1}), 10));
  EXPECT_EQ(bucket.admits(Nanos{0}, 20), 10);
  bucket.change(*Bucket::make(per(1, minutes{1}), 10), kStart);
  bucket.change(*Bucket::make(per(10, minutes{1}), 10), kStart + seconds{30});
  EXPECT_EQ(bucket.peek(seconds{30}).reset_after, seconds{57});
}

TEST(ChangedBucket, FollowsManyChanges) {
  auto bucket = key(Bucket::make(per(10, minutes{1}), 10));
  EXPECT_EQ(bucket.admits(Nanos{0}, 10), 10);
  Instant now = kStart;
  for (const int rate : {6, 12, 6, 12, 20, 30}) {
    bucket.change(*Bucket::make(per(rate, minutes{1}), 10), now += seconds{1});
  }
  // A second each at 10, 6, 12, 6, 12 and 20 a minute: 1.1 permits have drained.
  EXPECT_EQ(bucket.peek(seconds{6}).remaining, 1);
  // Rounded up at each change, by less than a nanosecond.
  EXPECT_GE(bucket.peek(seconds{6}).reset_after, milliseconds{17'800});
  EXPECT_LE(bucket.peek(seconds{6}).reset_after, milliseconds{17'800} + Nanos{6});
}

// The history is bounded: a debt from before its start may drain too slowly or at once, but the
// limit is never exceeded.
TEST(ChangedBucket, GainsNoPermitsFromManyChanges) {
  auto bucket = key(Bucket::make(per(10, minutes{1}), 10));
  EXPECT_EQ(bucket.admits(Nanos{0}, 10), 10);
  for (int i = 1; i <= 40; ++i) {
    bucket.change(*Bucket::make(per(i % 2 == 1 ? 6 : 12, minutes{1}), 10), kStart + seconds{i});
  }
  // Between 6 and 12 permits a minute have drained.
  EXPECT_GE(bucket.peek(seconds{40}).remaining, 4);
  EXPECT_LE(bucket.peek(seconds{40}).remaining, 8);
}

// A restart loses the number of the epoch; an equal price must be recognized without it.
TEST(ChangedBucket, KeepsADebtToTheNanosecondAcrossARestart) {
  auto bucket = key(Bucket::make(per(10, minutes{1}), 10));
  bucket.change(*Bucket::make(per_second(7), 7), kStart);
  EXPECT_EQ(bucket.admits(Nanos{0}, 20), 7);
  const Nanos before = bucket.peek(Nanos{1}).reset_after;
  bucket.limit = *Bucket::make(per_second(7), 7);
  EXPECT_EQ(bucket.peek(Nanos{1}).reset_after, before);
}

TEST(Bucket, RejectsInvalidNumbers) {
  EXPECT_EQ(Bucket::make(per_second(1), 0).error(), Flaw::capacity_too_small);
  EXPECT_EQ(Bucket::make(per_second(1), kMaxPermits + 1).error(), Flaw::capacity_too_large);
  EXPECT_EQ(Bucket::make(per_second(0), 1).error(), Flaw::rate_not_positive);
  EXPECT_EQ(Bucket::make_queue(per_second(1), -1, 0).error(), Flaw::capacity_too_small);
  EXPECT_EQ(Bucket::make_queue(per_second(1), 0, -1).error(), Flaw::capacity_too_small);
  EXPECT_EQ(Bucket::make_queue(per_second(1), kMaxPermits, 0).error(), Flaw::capacity_too_large);
}

}  // namespace
}  // namespace weir::core
