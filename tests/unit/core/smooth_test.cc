// The smooth limiter, with the sequences of Guava's own tests (R: wait of a call, U: time passes).

#include "core/smooth.h"

#include <gtest/gtest.h>

#include "at.h"

namespace weir::core {
namespace {

// A limiter as Guava creates it, with callers that sleep for the wait they are given.
struct Sleeper {
  Key<Smooth> limiter;
  Nanos now{0};

  Nanos acquire(Permits permits = 1) {
    const Decision passed = limiter.take(now, {.cost = permits, .max_wait = kForever});
    EXPECT_TRUE(passed);
    now += passed.wait;
    return passed.wait;
  }
  std::vector<double> acquire_all(const std::vector<Permits>& all) {
    std::vector<double> waits;
    for (const Permits permits : all) {
      waits.push_back(static_cast<double>(acquire(permits).count()) / 1e9);
    }
    return waits;
  }
  Decision try_acquire(Nanos timeout, Permits permits = 1) {
    const Decision answer = limiter.take(now, {.cost = permits, .max_wait = timeout});
    now += answer.wait;
    return answer;
  }
};

Sleeper bursty(const Rate& rate) { return {{*Smooth::make(rate), created_empty(kStart)}}; }
Sleeper warming(const Rate& rate, Nanos warmup) { return {{*Smooth::make_warming(rate, warmup)}}; }

using Waits = std::vector<double>;

TEST(Smooth, SpacesCallersFromTheFirstCallOn) {
  EXPECT_EQ(bursty(per_second(5)).acquire_all({1, 1, 1}), (Waits{0, 0.2, 0.2}));
}

TEST(Smooth, DoesNotDelayACallerThatComesInTime) {
  Sleeper guava = bursty(per_second(5));
  EXPECT_EQ(guava.acquire(), Nanos{0});
  guava.now += milliseconds{200};
  EXPECT_EQ(guava.acquire_all({1, 1}), (Waits{0, 0.2}));
}

// Five permits are saved up in a second, and the sixth is on credit.
TEST(Smooth, SavesUpOneSecondOfPermits) {
  Sleeper guava = bursty(per_second(5));
  guava.now += seconds{2};
  EXPECT_EQ(guava.acquire_all({1, 1, 3, 1, 1}), (Waits{0, 0, 0, 0, 0.2}));
}

TEST(Smooth, MakesTheNextCallerWait) {
  EXPECT_EQ(bursty(per_second(1)).acquire_all({1, 1, 2, 4, 8, 1}), (Waits{0, 1, 1, 2, 4, 8}));
}

// A caller that was promised a turn keeps it when the rate changes.
TEST(Smooth, ChangesItsRateAtRunTime) {
  Sleeper guava = bursty(per_second(1));
  EXPECT_EQ(guava.acquire_all({1, 1}), (Waits{0, 1}));
  guava.limiter.limit = *Smooth::make(per_second(2));
  EXPECT_EQ(guava.acquire_all({1, 2, 4, 1}), (Waits{1, 0.5, 1, 2}));
}

TEST(Smooth, StartsSlowlyAfterARestWithWarmUp) {
  const Waits cold{0, 1.375, 1.125, 0.875, 0.625, 0.5, 0.5, 0.5};
  const std::vector<Permits> eight(8, 1);
  Sleeper guava = warming(per_second(2), seconds{4});
  EXPECT_EQ(guava.acquire_all(eight), cold);
  guava.now += milliseconds{500} + seconds{4};
  EXPECT_EQ(guava.acquire_all(eight), cold);
  guava.now += milliseconds{500} + seconds{2};
  EXPECT_EQ(guava.acquire_all(eight), (Waits{0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}));
}

TEST(Smooth, RefusesCallersThatWouldWaitTooLong) {
  Sleeper guava = bursty(per_second(5));
  EXPECT_TRUE(guava.try_acquire(Nanos{0}));
  EXPECT_EQ(guava.try_acquire(milliseconds{200}).wait, milliseconds{200});
  const Decision refused = guava.try_acquire(milliseconds{100});
  EXPECT_EQ(refused.outcome, Outcome::limited);
  EXPECT_EQ(refused.retry_after, milliseconds{100});
  guava.now += milliseconds{100};
  EXPECT_EQ(guava.try_acquire(milliseconds{100}).wait, milliseconds{100});
}

TEST(Smooth, TreatsANegativeTimeoutAsZero) {
  Sleeper guava = bursty(per_second(5));
  EXPECT_TRUE(guava.try_acquire(Nanos{0}, 5));
  guava.now += milliseconds{900};
  EXPECT_FALSE(guava.try_acquire(Nanos::min()));
  guava.now += milliseconds{100};
  EXPECT_TRUE(guava.try_acquire(seconds{-1}));
}

TEST(Smooth, AcceptsTheLongestTimeoutWithoutOverflow) {
  Sleeper guava = bursty(per_second(5));
  EXPECT_TRUE(guava.try_acquire(Nanos{0}));
  guava.now += milliseconds{100};
  EXPECT_EQ(guava.try_acquire(Nanos::max()).wait, milliseconds{100});
}

// A new limiter admits one call; after a rest, it admits the saved permits and one on credit.
TEST(Smooth, AdmitsElevenOfAHundredAfterARest) {
  EXPECT_EQ(bursty(per_second(10)).limiter.admits(Nanos{0}, 100), 1);
  Key<Smooth> rested{*Smooth::make(per_second(10))};
  EXPECT_EQ(rested.peek(Nanos{0}).limit, 11);
  EXPECT_EQ(rested.peek(Nanos{0}).remaining, 11);
  EXPECT_EQ(rested.admits(Nanos{0}, 100), 11);
  EXPECT_EQ(rested.peek(Nanos{0}).retry_after, milliseconds{100});
  EXPECT_EQ(rested.peek(Nanos{0}).reset_after, milliseconds{1100});
}

// Thirds of a second add up: four pass after a rest at three a second.
TEST(Smooth, SavesFractionsExactly) {
  Key<Smooth> rested{*Smooth::make(per_second(3))};
  EXPECT_EQ(rested.admits(Nanos{0}, 100), 4);
}

// A call is never refused for its size: the next caller waits for it.
TEST(Smooth, NeverReportsImpossible) {
  Sleeper guava{{*Smooth::make(per_second(10))}};
  EXPECT_EQ(guava.acquire(1'000'000), Nanos{0});
  EXPECT_EQ(guava.try_acquire(Nanos{0}).outcome, Outcome::limited);
  EXPECT_EQ(guava.try_acquire(Nanos{0}, -1).outcome, Outcome::impossible);
}

// The debt of two permits at 0 s lasts until 0.58 s. They make the following eight cheaper by 0.16
// s, which is more than the 0.159 s for which those have to wait.
TEST(Smooth, AdmitsEarlierAfterMoreUseWhenItWarmsUp) {
  Sleeper used_less = warming(per_second(10), seconds{4});
  Sleeper used_more = warming(per_second(10), seconds{4});
  used_more.acquire(2);
  for (Sleeper* each : {&used_less, &used_more}) {
    each->now = milliseconds{421};
    each->acquire(8);
    each->now = milliseconds{2'500};
  }
  EXPECT_EQ(used_more.try_acquire(Nanos{0}).outcome, Outcome::allowed);
  EXPECT_EQ(used_less.try_acquire(Nanos{0}).outcome, Outcome::limited);
}

// Ten permits of a cold limiter take the warm-up time, in however many calls they are taken.
TEST(Smooth, WarmsUpInTheSameTimeForAnyCallSizes) {
  for (const Rate& rate : {per_second(4), per_second(2), per_second(1), Rate{5, 10}, Rate{1, 10}}) {
    const Nanos warmup{20 * rate.period.count() * rate.scale / rate.count};
    for (const std::vector<Permits>& pieces : {std::vector<Permits>{10},
                                               {5, 5},
                                               {1, 9},
                                               {9, 1},
                                               {3, 3, 4},
                                               {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}) {
      Sleeper guava = warming(rate, warmup);
      (void)guava.acquire_all(pieces);
      (void)guava.acquire();
      EXPECT_NEAR(static_cast<double>(guava.now.count()), static_cast<double>(warmup.count()), 20);
    }
  }
}

// Half a second saved at 3/s is half a second at 2/s.
TEST(ChangedSmooth, KeepsItsSavedTime) {
  Key<Smooth> limiter{*Smooth::make(per_second(3)), created_empty(kStart)};
  EXPECT_EQ(limiter.peek(milliseconds{500}).reset_after, milliseconds{500});
  (void)limiter.take(milliseconds{500});  // leaves half a second less a third
  const Nanos rest = limiter.peek(milliseconds{500}).reset_after;
  limiter.limit = *Smooth::make(per_second(2));
  EXPECT_NEAR(static_cast<double>(limiter.peek(milliseconds{500}).reset_after.count()),
              static_cast<double>(rest.count()), 2);
}

TEST(SmoothRefund, UndoesTheTakeIfTheKeyHasNotChanged) {
  Key<Smooth> limiter{*Smooth::make(per_second(10))};
  Receipt receipt = limiter.taken(Nanos{0}, {.cost = 31});
  EXPECT_EQ(limiter.peek(Nanos{0}).retry_after, milliseconds{2100});
  limiter.refund(Nanos{0}, receipt, 11);
  EXPECT_EQ(limiter.peek(Nanos{0}).retry_after, milliseconds{1000});
  limiter.refund(Nanos{0}, receipt, 100);
  EXPECT_EQ(limiter.peek(Nanos{0}).remaining, 11);
}

TEST(SmoothRefund, GivesNothingBackAfterALaterCall) {
  Key<Smooth> limiter{*Smooth::make(per_second(10))};
  Receipt receipt = limiter.taken(Nanos{0}, {.cost = 3});
  (void)limiter.take(Nanos{0});
  limiter.refund(Nanos{0}, receipt, 3);
  EXPECT_EQ(receipt.taken, 3);
  EXPECT_EQ(limiter.peek(Nanos{0}).remaining, 7);
}

TEST(Smooth, RejectsInvalidNumbers) {
  EXPECT_EQ(Smooth::make(per_second(0)).error(), Flaw::rate_not_positive);
  EXPECT_EQ(Smooth::make(per_second(2'000'000'000)).error(), Flaw::rate_too_high);
  EXPECT_EQ(Smooth::make_warming(per_second(1), kLongestWarmup + Nanos{1}).error(),
            Flaw::warmup_too_long);
}

}  // namespace
}  // namespace weir::core
