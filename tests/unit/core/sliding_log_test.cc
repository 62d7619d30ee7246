#include "core/sliding_log.h"

#include <gtest/gtest.h>

#include "at.h"

namespace weir::core {
namespace {

// The log of one key, with a ring of the size that the limit needs.
struct LogKey {
  explicit LogKey(const Rate& rate)
      : limit(*SlidingLog::make(rate)), ring(static_cast<std::size_t>(limit.count)) {}

  AdmissionLog log() { return {head, ring}; }
  Evaluation ask(Nanos at, Permits cost = 1) {
    return decide(limit, log(), kStart + at, {.cost = cost});
  }
  Receipt take(Nanos at, Permits cost = 1) {
    if (ask(at, cost).outcome != Outcome::allowed) return {};
    return {.at = charge(limit, log(), kStart + at, cost), .taken = cost};
  }
  Permits left(Nanos at) { return remaining(limit, log(), kStart + at); }
  void give_back(Nanos at, Receipt& receipt, Permits back) {
    refund(limit, log(), kStart + at, receipt, back);
  }

  SlidingLog limit;
  AdmissionLog::Head head{};
  std::vector<LogEntry> ring;
};

// An admission at t counts until just before t + period.
TEST(SlidingLog, FreesEachPermitOnePeriodAfterItWasTaken) {
  LogKey key(per(2, seconds{1}));
  (void)key.take(Nanos{0});
  (void)key.take(milliseconds{600});
  EXPECT_EQ(key.ask(milliseconds{900}).retry_after, milliseconds{100});
  EXPECT_EQ(key.ask(seconds{1} - Nanos{1}).outcome, Outcome::limited);
  EXPECT_EQ(key.ask(seconds{1}).outcome, Outcome::allowed);
  EXPECT_EQ(key.left(seconds{1}), 1);
  EXPECT_EQ(key.ask(seconds{1}, 2).retry_after, milliseconds{600});
}

TEST(SlidingLog, AdmitsTheSameNumberInEachWindow) {
  LogKey key(per(10, seconds{1}));
  for (int round = 0; round < 3; ++round) {
    const Nanos at = round * milliseconds{1050};
    for (int i = 0; i < 10; ++i) EXPECT_EQ(key.take(at).taken, 1);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(key.take(at).taken, 0);
  }
}

// The ring buffer wraps around many times.
TEST(SlidingLog, NeverExceedsItsRing) {
  LogKey key(per(3, Nanos{10}));
  for (int at = 0; at < 1000; ++at) {
    (void)key.take(Nanos{at});
    ASSERT_LE(key.log().size(), 3u);
  }
}

// Debits are not checked against the limit, so there may be more of them than entries.
TEST(SlidingLog, CountsDebitsThatFindTheRingFull) {
  LogKey key(per(2, seconds{1}));
  for (int i = 0; i < 5; ++i) (void)charge(key.limit, key.log(), kStart + milliseconds{i}, 1);
  EXPECT_EQ(key.left(milliseconds{5}), 0);
  EXPECT_EQ(key.left(seconds{1} + milliseconds{3}), 0);
  EXPECT_EQ(key.left(seconds{1} + milliseconds{4}), 2);
}

TEST(SlidingLog, FindsItsNewestEntryWhenTheClockStepsBack) {
  LogKey key(per(2, seconds{1}));
  (void)key.take(seconds{5});
  EXPECT_EQ(key.left(seconds{1}), 1);
  EXPECT_EQ(key.take(seconds{1}).at, kStart + seconds{5});
  EXPECT_EQ(key.ask(seconds{1}).retry_after, seconds{5});
}

TEST(SlidingLogRefund, GivesBackByTheInstantOfTheTake) {
  LogKey key(per(5, seconds{1}));
  Receipt first = key.take(Nanos{0}, 2);
  Receipt second = key.take(milliseconds{500}, 3);
  key.give_back(milliseconds{600}, first, 1);
  EXPECT_EQ(key.left(milliseconds{600}), 1);
  key.give_back(milliseconds{600}, first, 100);
  EXPECT_EQ(key.left(milliseconds{600}), 2);
  EXPECT_EQ(first.taken, 0);
  key.give_back(milliseconds{1500}, second, 3);
  EXPECT_EQ(second.taken, 3) << "its window is over";
}

// Entries that were dropped at a later time must not count again because the last call was
// refunded.
TEST(SlidingLogRefund, KeepsTheTimeOfTheNewestEntry) {
  LogKey key(per(1, seconds{1}));
  (void)key.take(Nanos{0});
  Receipt receipt = key.take(seconds{1});
  key.give_back(seconds{1}, receipt, 1);
  EXPECT_EQ(key.left(seconds{1}), 1);
  EXPECT_EQ(rest_at(key.limit, key.log()), Instant{});
  EXPECT_EQ(key.take(milliseconds{500}).at, kStart + seconds{1});
}

TEST(SlidingLog, RejectsACountAboveItsMaximum) {
  EXPECT_TRUE(SlidingLog::make(per_second(kMaxExact)));
  EXPECT_EQ(SlidingLog::make(per_second(kMaxExact + 1)).error(), Flaw::capacity_too_large);
}

}  // namespace
}  // namespace weir::core
