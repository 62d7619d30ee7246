#include "weir/limiter.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <thread>

#include "limiter/limit_access.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr Instant kStart = ManualClock::kStart;
constexpr std::chrono::hours kYear{365 * 24};

// The number of admitted calls out of `n`.
int admits(Limiter& limiter, int n) {
  int admitted = 0;
  for (int i = 0; i < n; ++i) admitted += limiter.try_acquire() ? 1 : 0;
  return admitted;
}

// ---- try_acquire

TEST(Limiter, AdmitsItsBurstAndThenOneCallPerInterval) {
  ManualClock clock;
  Limiter limiter{per_second(20).burst(30), clock};
  for (Permits left = 29; left >= 0; --left) {
    const Decision passed = limiter.try_acquire();
    ASSERT_TRUE(passed);
    EXPECT_EQ(passed.limit, 30);
    EXPECT_EQ(passed.remaining, left);
    EXPECT_EQ(passed.reset_after, (30 - left) * 50ms);
  }
  const Decision refused = limiter.try_acquire();
  EXPECT_EQ(refused.outcome, Outcome::limited);
  EXPECT_EQ(refused.retry_after, 50ms);
  clock.advance(50ms - 1ns);
  EXPECT_EQ(admits(limiter, 3), 0);
  clock.advance(1ns);
  EXPECT_EQ(admits(limiter, 3), 1);
}

// A third of a second is not a whole number of nanoseconds: the state needs both of its words.
TEST(Limiter, DoesNotDriftAtThreeASecond) {
  ManualClock clock;
  Limiter limiter{per_second(3), clock};
  for (int second = 0; second < 100; ++second) {
    EXPECT_EQ(admits(limiter, 4), 3) << second;
    clock.advance(1s);
  }
}

TEST(Limiter, DecidesByTheCallersTime) {
  ManualClock clock;
  Limiter limiter{per_second(1), clock};
  EXPECT_TRUE(limiter.try_acquire_at(kStart + 10s));
  EXPECT_FALSE(limiter.try_acquire_at(kStart + 10s));
  EXPECT_TRUE(limiter.try_acquire_at(kStart + 11s));
  // The limiter's own clock is far behind that instant: the debt stays.
  EXPECT_EQ(limiter.try_acquire().retry_after, 12s);
}

// Instants outside the supported range must be harmless.
TEST(Limiter, AcceptsAnyInstant) {
  Limiter limiter{per_second(1)};
  EXPECT_TRUE(limiter.try_acquire_at(Instant::min()));
  EXPECT_FALSE(limiter.try_acquire_at(Instant{}));
  EXPECT_TRUE(limiter.try_acquire_at(Instant::max()));
  EXPECT_FALSE(limiter.try_acquire_at(Instant::max()));
}

TEST(Limiter, TakesNothingForACostOfZero) {
  ManualClock clock;
  Limiter limiter{per_second(1).burst(2), clock};
  EXPECT_TRUE(limiter.try_acquire(0));
  EXPECT_EQ(limiter.try_acquire(0).remaining, 2);
}

TEST(Limiter, ReportsMoreThanItsBurstAsImpossible) {
  ManualClock clock;
  Limiter limiter{per_second(1).burst(2), clock};
  for (const Permits cost : {Permits{3}, Permits{-1}, std::numeric_limits<Permits>::max(),
                             std::numeric_limits<Permits>::min()}) {
    EXPECT_EQ(limiter.try_acquire(cost).outcome, Outcome::impossible) << cost;
    EXPECT_EQ(limiter.try_acquire(cost).retry_after, kNever) << cost;
    EXPECT_EQ(limiter.acquire(Deadline::never(), cost).outcome, Outcome::impossible) << cost;
    EXPECT_EQ(limiter.reserve(cost).decision().outcome, Outcome::impossible) << cost;
  }
  EXPECT_EQ(limiter.peek().remaining, 2);
}

TEST(Limiter, SupportsABillionPermitsASecond) {
  ManualClock clock;
  Limiter limiter{per_second(1'000'000'000), clock};
  EXPECT_TRUE(limiter.try_acquire(1'000'000'000));
  EXPECT_EQ(limiter.try_acquire().retry_after, 1ns);
  clock.advance(1ns);
  EXPECT_EQ(admits(limiter, 3), 1);
}

TEST(Limiter, SupportsOnePermitAYear) {
  ManualClock clock;
  Limiter limiter{per(1, kYear), clock};
  EXPECT_EQ(admits(limiter, 3), 1);
  EXPECT_EQ(limiter.try_acquire().retry_after, kYear);
  clock.advance(kYear - 1ns);
  EXPECT_EQ(admits(limiter, 3), 0);
  clock.advance(1ns);
  EXPECT_EQ(admits(limiter, 3), 1);
}

// NTP may step the clock back; the bucket must neither refill nor lock up.
TEST(Limiter, KeepsItsTokensWhenTheClockStepsBack) {
  ManualClock clock;
  Limiter limiter{per_second(10).burst(5), clock};
  EXPECT_EQ(admits(limiter, 9), 5);
  clock.advance(-1s);
  EXPECT_EQ(admits(limiter, 9), 0);
  clock.advance(1s);
  EXPECT_EQ(admits(limiter, 9), 0);
  clock.advance(100ms);
  EXPECT_EQ(admits(limiter, 9), 1);
}

TEST(Limiter, DoesNotChangeOnPeek) {
  ManualClock clock;
  Limiter limiter{per_second(1).burst(2), clock};
  EXPECT_TRUE(limiter.try_acquire());
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(limiter.peek());
    EXPECT_EQ(limiter.peek().remaining, 1);
    EXPECT_EQ(limiter.peek(2).retry_after, 1s);
  }
}

TEST(Limiter, ForgetsItsUsageOnReset) {
  ManualClock clock;
  for (const Limit& limit : {Limit{per_second(2)}, Limit{per(3, 7s).burst(2)}, Limit::window(2, 1s),
                             Limit::sliding_exact(2, 1s)}) {
    Limiter limiter{limit, clock};
    EXPECT_EQ(admits(limiter, 5), 2);
    limiter.reset();
    EXPECT_EQ(limiter.peek().reset_after, 0s);
    EXPECT_EQ(admits(limiter, 5), 2);
  }
}

// ---- Other algorithms

TEST(Limiter, CountsInWindows) {
  ManualClock clock;
  Limiter limiter{Limit::window(3, 1s), clock};
  EXPECT_EQ(admits(limiter, 5), 3);
  EXPECT_EQ(limiter.try_acquire().retry_after, 1s);
  clock.advance(1s);
  EXPECT_EQ(admits(limiter, 5), 3);
}

TEST(Limiter, CountsInASlidingWindow) {
  ManualClock clock;
  Limiter limiter{Limit::sliding(4, 1s), clock};
  EXPECT_EQ(admits(limiter, 9), 4);
  clock.advance(1500ms);
  EXPECT_EQ(admits(limiter, 9), 2);
}

TEST(Limiter, CountsExactlyInEveryWindow) {
  ManualClock clock;
  Limiter limiter{Limit::sliding_exact(3, 1s), clock};
  EXPECT_EQ(admits(limiter, 1), 1);
  clock.advance(600ms);
  EXPECT_EQ(admits(limiter, 9), 2);
  EXPECT_EQ(limiter.peek().retry_after, 400ms);
  EXPECT_EQ(limiter.try_acquire(4).outcome, Outcome::impossible);
  clock.advance(400ms);
  const Decision last = limiter.try_acquire();
  EXPECT_TRUE(last);
  EXPECT_EQ(last.limit, 3);
  EXPECT_EQ(last.remaining, 0);
  EXPECT_EQ(last.reset_after, 1s);
  EXPECT_EQ(admits(limiter, 9), 0);
}

// One call passes at once; the places are for callers that wait.
TEST(Limiter, QueuesCallersThatWait) {
  ManualClock clock;
  Limiter limiter{Limit::queue(per_second(10), 2), clock};
  EXPECT_EQ(admits(limiter, 9), 1);
  EXPECT_EQ(limiter.reserve().ready_at(), kStart + 100ms);
  EXPECT_EQ(limiter.reserve().ready_at(), kStart + 200ms);
  EXPECT_FALSE(limiter.reserve());
}

TEST(Limiter, AcceptsLimitsParsedFromText) {
  ManualClock clock;
  Limiter smooth{limit_of(*core::Smooth::make({.count = 10})), clock};
  EXPECT_EQ(admits(smooth, 100), 11);
  EXPECT_EQ(smooth.acquire(Deadline::never()).wait, 100ms);
  Limiter nginx{limit_of(*core::NginxQueue::make({.count = 10}, 2, 0)), clock};
  EXPECT_EQ(admits(nginx, 9), 1);
  EXPECT_EQ(nginx.acquire(Deadline::never()).wait, 100ms);
}

TEST(Limiter, RejectsConcurrencyLimits) {
  EXPECT_THROW(Limiter{limit_of(*core::Concurrency::make(7, 30s))}, std::invalid_argument);
}

// ---- Waiting, at most until a deadline

TEST(Limiter, WaitsForItsTurn) {
  ManualClock clock;
  Limiter limiter{per_second(10).burst(2), clock};
  for (const Nanos wait : {0ms, 0ms, 100ms, 100ms}) {
    const Decision passed = limiter.acquire(Deadline::never());
    EXPECT_TRUE(passed);
    EXPECT_EQ(passed.wait, wait);
  }
  EXPECT_EQ(clock.now(), kStart + 200ms);
}

// The turn would come too late: neither time nor a permit is lost.
TEST(Limiter, RefusesAtOnceWhenTheTurnWouldComeTooLate) {
  ManualClock clock;
  Limiter limiter{per_second(10).burst(2), clock};
  EXPECT_TRUE(limiter.try_acquire(2));
  EXPECT_EQ(limiter.acquire(Deadline::after(99ms)).retry_after, 1ms);
  EXPECT_EQ(limiter.acquire(Deadline::at(kStart + 199ms), 2).retry_after, 1ms);
  EXPECT_EQ(clock.now(), kStart);
  EXPECT_EQ(limiter.acquire(Deadline::after(100ms)).wait, 100ms);
}

TEST(Limiter, DoesNotWaitOnceTheDeadlineHasPassed) {
  ManualClock clock;
  Limiter limiter{per_second(10).burst(2), clock};
  EXPECT_TRUE(limiter.acquire(Deadline::at(kStart - 1h)));
  EXPECT_TRUE(limiter.acquire(Deadline::after(-1h)));
  EXPECT_EQ(limiter.acquire(Deadline::at(kStart - 1h)).retry_after, 100ms);
  EXPECT_EQ(limiter.acquire(Deadline::at(Instant::min())).retry_after, 100ms);
  EXPECT_EQ(clock.now(), kStart);
}

TEST(Limiter, WaitsForTheNextWindow) {
  for (const Limit& limit : {Limit::window(2, 1s), Limit::sliding_exact(2, 1s)}) {
    ManualClock clock{kStart + 400ms};
    Limiter limiter{limit, clock};
    EXPECT_EQ(admits(limiter, 3), 2);
    const Nanos left = limiter.peek().retry_after;
    EXPECT_EQ(limiter.acquire(Deadline::after(left - 1ns)).outcome, Outcome::limited);
    EXPECT_EQ(clock.now(), kStart + 400ms);
    EXPECT_EQ(limiter.acquire(Deadline::after(left)).wait, left);
    EXPECT_EQ(clock.now(), kStart + 400ms + left);
  }
}

TEST(Limiter, TakesNothingWhenAlreadyStopped) {
  ManualClock clock;
  std::stop_source stopped;
  stopped.request_stop();
  for (const Limit& limit : {Limit{per_second(1)}, Limit::window(1, 1s)}) {
    Limiter limiter{limit, clock};
    const Decision answer = limiter.acquire(Deadline::never(), 1, stopped.get_token());
    EXPECT_EQ(answer.outcome, Outcome::limited);
    EXPECT_EQ(answer.retry_after, 0s);
    EXPECT_EQ(limiter.peek().remaining, 1);
  }
}

TEST(Limiter, GivesBackItsPermitsWhenStoppedWhileItWaits) {
  for (const Limit& limit : {Limit{per_second(1)}, Limit{per(1, 3s)}, Limit::window(1, 1s),
                             Limit::sliding_exact(1, 1s), Limit::queue(per_second(1), 5)}) {
    ManualClock clock{ManualClock::Sleepers::wait_for_others};
    Limiter limiter{limit, clock};
    EXPECT_TRUE(limiter.try_acquire());
    const Decision before = limiter.peek();
    Decision answer;
    {
      std::jthread waiter([&](const std::stop_token& stop) {
        answer = limiter.acquire(Deadline::never(), 1, stop);
      });
      clock.await_sleepers(1);
    }
    EXPECT_EQ(answer, before);
    EXPECT_EQ(limiter.peek(), before);
  }
}

TEST(Limiter, WaitsOnTheSystemClock) {
  Limiter limiter{per(1, 1ms)};
  const Instant start = system_clock().now();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(limiter.acquire(Deadline::never()));
  EXPECT_GE(system_clock().now() - start, 3ms);
}

}  // namespace
}  // namespace weir
