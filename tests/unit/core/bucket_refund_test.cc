// Refunds of a bucket: a receipt gives back only its own permits, and only those that have not
// drained.

#include <gtest/gtest.h>

#include "at.h"

namespace weir::core {
namespace {

Key<Bucket> one_a_second(Permits burst) { return key(Bucket::make(per_second(1), burst)); }

TEST(BucketRefund, GivesBackPermitsThatHaveNotDrained) {
  auto bucket = one_a_second(10);
  Receipt receipt = bucket.taken(Nanos{0}, {.cost = 6});
  bucket.refund(seconds{2}, receipt, 6);
  EXPECT_EQ(receipt.taken, 0);
  EXPECT_EQ(bucket.peek(seconds{2}).remaining, 10);
}

TEST(BucketRefund, GivesBackNothingOnceDrained) {
  auto bucket = one_a_second(10);
  Receipt old = bucket.taken(Nanos{0}, {.cost = 2});
  (void)bucket.take(seconds{5}, {.cost = 7});
  bucket.refund(seconds{5}, old, 2);
  EXPECT_EQ(bucket.peek(seconds{5}).remaining, 3);
}

TEST(BucketRefund, NeverGivesBackMoreThanWasTaken) {
  auto bucket = one_a_second(10);
  (void)bucket.take(Nanos{0}, {.cost = 4});
  Receipt receipt = bucket.taken(Nanos{0}, {.cost = 2});
  bucket.refund(Nanos{0}, receipt, 100);
  EXPECT_EQ(bucket.peek(Nanos{0}).remaining, 6);
  bucket.refund(Nanos{0}, receipt, 100);
  EXPECT_EQ(bucket.peek(Nanos{0}).remaining, 6);
  bucket.refund(Nanos{0}, receipt, -5);
  EXPECT_EQ(bucket.peek(Nanos{0}).remaining, 6);
}

// The last waiting caller cancels: the next caller gets that turn.
TEST(BucketRefund, GivesTheTurnOfACancelledReservationToTheNextCaller) {
  auto queue = key(Bucket::make_queue(per_second(1), 5, 0));
  (void)queue.take(Nanos{0}, {.max_wait = kForever});
  Receipt second = queue.taken(Nanos{0}, {.max_wait = kForever});
  queue.refund(Nanos{0}, second, 1);
  EXPECT_EQ(queue.take(Nanos{0}, {.max_wait = kForever}).wait, seconds{1});
}

// The second of three cancels; the third keeps its turn, so no later caller may go before it.
TEST(BucketRefund, KeepsTheTurnsOfOtherCallers) {
  auto queue = key(Bucket::make_queue(per_second(1), 5, 0));
  (void)queue.take(Nanos{0}, {.max_wait = kForever});
  Receipt second = queue.taken(Nanos{0}, {.max_wait = kForever});
  EXPECT_EQ(queue.take(Nanos{0}, {.max_wait = kForever}).wait, seconds{2});
  queue.refund(Nanos{0}, second, 1);
  EXPECT_GE(queue.take(Nanos{0}, {.max_wait = kForever}).wait, seconds{3});
}

// A debit beyond the depth has promised no caller a turn.
TEST(BucketRefund, GivesBackToABucketInDebt) {
  auto bucket = key(Bucket::make(per_second(10), 100));
  Receipt receipt = bucket.taken(seconds{0}, {.cost = 100});
  bucket.debit(seconds{0}, 150);
  bucket.refund(seconds{0}, receipt, 100);
  EXPECT_EQ(receipt.taken, 0);
  EXPECT_EQ(bucket.peek(seconds{0}).retry_after, milliseconds{5100}) << "150 are owed, not 250";
}

// Two callers took 4 and 2. The first gives back 2, which leaves a debt of 4, as after its own
// take. When it gives back the other 2, the key must not count as unchanged since that take.
TEST(BucketRefund, KeepsPermitsOfOthersWhenOneGivesBackInTwoParts) {
  auto bucket = one_a_second(10);
  Receipt first = bucket.taken(Nanos{0}, {.cost = 4});
  (void)bucket.take(Nanos{0}, {.cost = 2});
  bucket.refund(Nanos{0}, first, 2);
  EXPECT_EQ(bucket.peek(Nanos{0}).remaining, 6);
  bucket.refund(Nanos{0}, first, 2);
  EXPECT_EQ(bucket.peek(Nanos{0}).remaining, 8);
}

// Refunds and takes of others restore the debt that the second caller's take had left, but its
// permits have drained in the meantime.
TEST(BucketRefund, DoesNotMistakeAnEqualDebtForAnUnchangedKey) {
  auto bucket = one_a_second(10);
  Receipt first = bucket.taken(Nanos{0}, {.cost = 4});
  Receipt second = bucket.taken(Nanos{0}, {.cost = 2});
  bucket.refund(Nanos{0}, first, 2);
  (void)bucket.take(seconds{3}, {.cost = 2});
  const Permits before = bucket.peek(seconds{3}).remaining;
  EXPECT_EQ(before, 7);
  bucket.refund(seconds{3}, second, 2);
  // Without the second call, two permits would be owed now: eight would remain.
  EXPECT_LE(bucket.peek(seconds{3}).remaining, 8);
}

// Ten permits are used at one an hour and have hardly drained when the limit becomes ten a second.
// The refund of one must not count the time before the change at the new rate.
TEST(BucketRefund, DoesNotDrainThePastAtTheNewRate) {
  auto bucket = key(Bucket::make(per(1, hours{1}), 10));
  Receipt receipt = bucket.taken(Nanos{0}, {.cost = 10});
  bucket.change(*Bucket::make(per_second(10), 10), kStart + seconds{100});
  EXPECT_EQ(bucket.peek(seconds{100}).remaining, 0);
  bucket.refund(seconds{100}, receipt, 1);
  EXPECT_LE(bucket.peek(seconds{100}).remaining, 1);
}

// Ten permits used at 1000/s have half drained after 5 ms, and others have taken five. When the
// rate becomes one a second, the first caller's ten must not look as if nothing had drained.
TEST(BucketRefund, DoesNotValueThePastAtTheNewPrice) {
  auto bucket = key(Bucket::make(per_second(1000), 10));
  Receipt receipt = bucket.taken(Nanos{0}, {.cost = 10});
  EXPECT_TRUE(bucket.take(milliseconds{5}, {.cost = 5}));
  bucket.change(*Bucket::make(per_second(1), 10), kStart + milliseconds{5});
  EXPECT_EQ(bucket.peek(milliseconds{5}).remaining, 0);
  bucket.refund(milliseconds{5}, receipt, 10);
  EXPECT_LE(bucket.peek(milliseconds{5}).remaining, 5);
}

}  // namespace
}  // namespace weir::core
