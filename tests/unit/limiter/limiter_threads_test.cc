// Invariants under any interleaving of threads. The tests count and do not measure time.

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "threads.h"
#include "weir/limiter.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr int kThreads = 4;

// Long enough for contention.
constexpr Permits kBurst = 20'000;

// A price in whole nanoseconds, one in fractions, and every other kind of state.
std::vector<Limit> limits() {
  return {per_second(10).burst(kBurst),   per_second(7).burst(kBurst),
          Limit::window(kBurst, 1h),      Limit::sliding(kBurst, 1h),
          Limit::sliding_exact(4096, 1h), Limit::queue(per_second(10), kBurst - 1, kBurst - 1)};
}

TEST(ConcurrentLimiter, AdmitsExactlyTheBurstAtOneInstant) {
  for (const Limit& limit : limits()) {
    ManualClock clock;
    Limiter limiter{limit, clock};
    std::atomic<Permits> admitted{0};
    together(kThreads, [&](int) {
      Permits mine = 0;
      for (Permits i = 0; i < limit.capacity(); ++i) mine += limiter.try_acquire() ? 1 : 0;
      admitted += mine;
    });
    EXPECT_EQ(admitted, limit.capacity());
    EXPECT_EQ(limiter.peek().remaining, 0);
  }
}

// Refunds swap both words of a state and takes perhaps only one: no update may be lost.
TEST(ConcurrentLimiter, LosesAndMintsNoPermitsWhenSomeCancel) {
  for (const Limit& limit : limits()) {
    ManualClock clock;
    Limiter limiter{limit, clock};
    std::atomic<Permits> kept{0};
    together(kThreads, [&](int thread) {
      std::minstd_rand random(static_cast<unsigned>(thread) + 1);
      Permits mine = 0;
      for (int i = 0; i < 20'000; ++i) {
        const Permits cost = 1 + static_cast<Permits>(random() % 3);
        if (random() % 8 == 0) {
          mine += limiter.try_acquire() ? 1 : 0;
        } else if (Reservation taken = limiter.reserve(cost, 0s)) {
          const bool came_back = random() % 16 != 0 && taken.cancel();
          mine += came_back ? 0 : cost;
        }
      }
      kept += mine;
    });
    EXPECT_LE(kept, limit.capacity());
    EXPECT_EQ(limiter.peek().remaining, limit.capacity() - kept);
  }
}

// The clock moves, callers wait, and some are stopped.
TEST(ConcurrentLimiter, NeverExceedsTheRate) {
  for (const Quota quota : {per_second(1000).burst(50), per_second(700).burst(50)}) {
    ManualClock clock;
    Limiter limiter{quota, clock};
    std::atomic<Permits> kept{0};
    std::atomic<Nanos> last_turn{0s};
    together(kThreads, [&](int thread) {
      std::minstd_rand random(static_cast<unsigned>(thread) + 1);
      for (int i = 0; i < 20'000; ++i) {
        if (random() % 4 == 0) clock.advance(100us);
        Reservation taken = limiter.reserve(1, 20ms);
        if (!taken || (random() % 2 == 0 && taken.cancel())) continue;
        ++kept;
        const Nanos turn = taken.ready_at() - ManualClock::kStart;
        Nanos last = last_turn;
        while (last < turn && !last_turn.compare_exchange_weak(last, turn)) {
        }
      }
    });
    const Permits granted_by_then =
        quota.burst() + quota.rate().count() * last_turn.load().count() / 1'000'000'000;
    EXPECT_LE(kept, granted_by_then);
  }
}

TEST(ConcurrentLimiter, GivesEachWaitingCallerItsOwnTurn) {
  ManualClock clock{ManualClock::Sleepers::wait_for_others};
  Limiter limiter{per_second(10).burst(1), clock};
  std::atomic<Nanos> waited{0s};
  std::vector<std::jthread> callers;
  for (int i = 0; i < kThreads; ++i) {
    callers.emplace_back([&] {
      const Nanos wait = limiter.acquire(Deadline::never()).wait;
      Nanos sum = waited;
      while (!waited.compare_exchange_weak(sum, sum + wait)) {
      }
    });
  }
  clock.await_sleepers(kThreads - 1);
  clock.advance(1s);
  callers.clear();
  EXPECT_EQ(waited.load(), 100ms + 200ms + 300ms);
}

// A reset races with takes and refunds.
TEST(ConcurrentLimiter, WorksAfterAConcurrentReset) {
  for (const Limit& limit : limits()) {
    ManualClock clock;
    Limiter limiter{limit, clock};
    together(kThreads, [&](int thread) {
      for (int i = 0; i < 1000; ++i) {
        if (thread == 0) {
          limiter.reset();
        } else if (Reservation taken = limiter.reserve(1, 0s)) {
          taken.cancel();
          (void)limiter.try_acquire();
        }
      }
    });
    limiter.reset();
    EXPECT_EQ(limiter.peek().remaining, limit.capacity());
    EXPECT_TRUE(limiter.try_acquire(limit.capacity()));
    EXPECT_FALSE(limiter.try_acquire());
  }
}

}  // namespace
}  // namespace weir
