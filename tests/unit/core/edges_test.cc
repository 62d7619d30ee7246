// Extreme values: costs, capacities, rates and clocks at the ends of their ranges.

#include <gtest/gtest.h>

#include <limits>

#include "at.h"

namespace weir::core {
namespace {

constexpr auto kLowest = std::numeric_limits<std::int64_t>::min();
constexpr auto kHighest = std::numeric_limits<std::int64_t>::max();
constexpr Permits kTwoTo53 = Permits{1} << 53;

class WholeTime : public Calendar {
 public:
  Span span_at(Instant) const override { return {Instant{}, kLatest}; }
};

// Calls `test` with one limit of each algorithm that has a State.
template <typename Test>
void for_each_limit(Test test) {
  test(*Bucket::make(per_second(10), 5));
  test(*Bucket::make(per_second(3), 5));
  test(*Bucket::make_queue(per_second(10), 4, 1));
  test(*NginxQueue::make(per_second(10), 4, 1));
  test(*Smooth::make(per_second(10)));
  test(*Smooth::make_warming(per_second(10), seconds{3}));
  test(*Window::make(per_second(5), false));
  test(*Window::make(per_second(5), true));
  test(*SlidingCounter::make(per_second(5)));
  test(*CalendarWindow::make(5, std::make_shared<WholeTime>()));
}

TEST(Edges, ACostOfZeroPassesAndDoesNotChangeTheState) {
  for_each_limit([](const auto& limit) {
    const StepResult taken = take(limit, State{}, kStart, {.cost = 0});
    EXPECT_TRUE(taken.decision);
    EXPECT_TRUE(taken.next.never_seen());
    EXPECT_EQ(taken.decision.remaining, capacity(limit));
  });
}

TEST(Edges, ANegativeCostIsImpossible) {
  for_each_limit([](const auto& limit) {
    for (const Permits cost : {Permits{-1}, -kMaxPermits, Permits{kLowest}}) {
      const StepResult taken = take(limit, State{}, kStart, {.cost = cost, .max_wait = kForever});
      EXPECT_EQ(taken.decision.outcome, Outcome::impossible);
      EXPECT_EQ(taken.decision.retry_after, kNever);
      EXPECT_TRUE(taken.next.never_seen());
    }
  });
}

TEST(Edges, ACostAboveTheCapacityIsImpossibleUnlessTheNextCallerPays) {
  for_each_limit([](const auto& limit) {
    constexpr bool pays_later = std::is_same_v<std::decay_t<decltype(limit)>, Smooth>;
    for (const Permits cost : {capacity(limit) + 1, kMaxPermits, Permits{kHighest}}) {
      const StepResult taken = take(limit, State{}, kStart, {.cost = cost, .max_wait = kForever});
      EXPECT_EQ(taken.decision.outcome, pays_later ? Outcome::allowed : Outcome::impossible);
    }
  });
}

// Instants outside the supported range count as the nearest one inside.
TEST(Edges, AnyInstantIsAccepted) {
  for_each_limit([](const auto& limit) {
    State state;
    for (const std::int64_t at :
         {std::int64_t{0}, std::int64_t{-1}, kLowest, ns(kStart), std::int64_t{1} << 62,
          kHighest - 1, kHighest, std::int64_t{0}, ns(kStart)}) {
      const StepResult taken = take(limit, state, instant(at), {.max_wait = kForever});
      state = taken.next;
      EXPECT_GE(taken.decision.remaining, 0);
      EXPECT_LE(taken.decision.remaining, taken.decision.limit);
      EXPECT_GE(taken.decision.reset_after, Nanos{0});
      EXPECT_EQ(state.when >> 63, 0u) << "the top bit belongs to the store";
    }
  });
}

TEST(Edges, AClockAtZeroWorksLikeAnyOther) {
  for_each_limit([](const auto& limit) {
    State state;
    Permits admitted = 0;
    for (int i = 0; i < 50; ++i) {
      const StepResult taken = take(limit, state, instant(0));
      state = taken.next;
      admitted += taken.decision ? 1 : 0;
    }
    EXPECT_GE(admitted, 1);
    EXPECT_LE(admitted, capacity(limit));
  });
}

// Repeated debits must not exceed what a state can encode.
TEST(Edges, DebitsOfAnySizeAreClamped) {
  for_each_limit([](const auto& limit) {
    State state;
    for (int i = 0; i < 4; ++i) {
      for (const Permits cost : {kMaxPermits, Permits{1}, Permits{kHighest}, Permits{-7}}) {
        state = debit(limit, state, kStart, cost);
        EXPECT_EQ(remaining(limit, state, kStart), 0);
        EXPECT_FALSE(take(limit, state, kStart).decision);
        EXPECT_EQ(state.when >> 63, 0u);
      }
    }
  });
}

TEST(Edges, AnEmptyReceiptGivesNothingBack) {
  for_each_limit([](const auto& limit) {
    const State used = debit(limit, State{}, kStart, 3);
    Receipt nothing;
    EXPECT_EQ(refund(limit, used, kStart, nothing, kHighest), used);
    EXPECT_EQ(refund(limit, used, kStart, nothing, kLowest), used);
    Receipt spoilt{.at = instant(kHighest), .taken = kHighest};
    const State after = refund(limit, used, instant(kLowest), spoilt, kHighest);
    EXPECT_GE(remaining(limit, after, kStart), 0);
  });
}

TEST(Edges, ARateOfOnePermitAYearIsExact) {
  auto bucket = key(Bucket::make(per(1, hours{24 * 365}), 1));
  EXPECT_EQ(bucket.admits(Nanos{0}, 3), 1);
  EXPECT_EQ(bucket.peek(Nanos{0}).retry_after, hours{24 * 365});
  EXPECT_EQ(bucket.admits(hours{24 * 365} - Nanos{1}, 3), 0);
  EXPECT_EQ(bucket.admits(hours{24 * 365}, 3), 1);
}

TEST(Edges, ARateOfAPermitPerNanosecondIsExact) {
  auto bucket = key(Bucket::make(per_second(1'000'000'000), 10));
  EXPECT_EQ(bucket.admits(Nanos{0}, 30), 10);
  EXPECT_EQ(bucket.peek(Nanos{0}).retry_after, Nanos{1});
  EXPECT_EQ(bucket.admits(Nanos{1}, 30), 1);
  EXPECT_EQ(bucket.admits(Nanos{6}, 30), 5);
}

TEST(Edges, ARateOfAThousandPermitsPerNanosecondIsExact) {
  auto bucket = key(Bucket::make(per_second(kMaxRate), 5000));
  EXPECT_EQ(bucket.take(Nanos{0}, {.cost = 5000}).remaining, 0);
  EXPECT_EQ(bucket.peek(Nanos{0}).retry_after, Nanos{1});
  EXPECT_EQ(bucket.peek(Nanos{0}).reset_after, Nanos{5});
  EXPECT_EQ(bucket.peek(Nanos{1}).remaining, 1000);
  EXPECT_EQ(bucket.take(Nanos{1}, {.cost = 1001}).outcome, Outcome::limited);
}

// The burst is far larger than the longest debt.
TEST(Edges, ABurstOfTwoToThe53CountsDown) {
  auto bucket = key(Bucket::make(per_second(1), kTwoTo53 - 1));
  const Decision first = bucket.take(Nanos{0});
  EXPECT_TRUE(first);
  EXPECT_EQ(first.limit, kTwoTo53 - 1);
  EXPECT_EQ(first.remaining, kTwoTo53 - 2);
  EXPECT_EQ(bucket.take(Nanos{0}).remaining, kTwoTo53 - 3);
}

TEST(Edges, TheLargestCapacityCanBeTakenAtOnce) {
  auto window = key(Window::make(per_second(kMaxPermits), false));
  EXPECT_EQ(window.take(Nanos{0}, {.cost = kMaxPermits}).remaining, 0);
  EXPECT_EQ(window.take(Nanos{0}).outcome, Outcome::limited);
  auto bucket = key(Bucket::make(per_second(kMaxRate), kMaxPermits));
  EXPECT_EQ(bucket.take(Nanos{0}, {.cost = kMaxPermits}).remaining, 0);
  EXPECT_EQ(bucket.take(Nanos{0}).outcome, Outcome::limited);
}

TEST(Edges, ExtremeRatesMakeALimitOrAFlawWithoutOverflow) {
  constexpr std::int64_t scale = 1'000'000'000'000'000'000;
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{999'999'937}, kHighest}) {
    for (const std::int64_t parts : {std::int64_t{1}, std::int64_t{1000}, scale}) {
      for (const Nanos period : {Nanos{1}, Nanos{seconds{1}}, Nanos{hours{24 * 365}}, kLongestDebt,
                                 Nanos::max(), Nanos::min()}) {
        const Rate rate{count, parts, period};
        if (const auto made = Bucket::make(rate, 10)) {
          EXPECT_EQ(take(*made, State{}, kStart).decision.remaining, 9);
        }
        if (const auto made = Smooth::make(rate)) {
          EXPECT_TRUE(take(*made, State{}, kStart).decision);
        }
        (void)NginxQueue::make(rate, 1, 1);
        (void)Window::make(rate, true);
        (void)SlidingCounter::make(rate);
        (void)SlidingLog::make(rate);
      }
    }
  }
}

TEST(Edges, AnyMaxWaitIsAccepted) {
  for_each_limit([](const auto& limit) {
    const State used = debit(limit, State{}, kStart, 1000);
    for (const Nanos wait : {Nanos::min(), Nanos{-1}, Nanos{0}, Nanos{1}, Nanos::max()}) {
      const StepResult taken = take(limit, used, kStart, {.max_wait = wait});
      if (!taken.decision) {
        EXPECT_EQ(taken.next, used);
      }
      EXPECT_LE(taken.decision.wait, std::max(wait, Nanos{0}));
    }
  });
}

}  // namespace
}  // namespace weir::core
