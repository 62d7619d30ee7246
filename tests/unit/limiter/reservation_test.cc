#include "weir/reservation.h"

#include <gtest/gtest.h>

#include <type_traits>
#include <utility>

#include "weir/limiter.h"
#include "weir/smooth_limiter.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr Instant kStart = ManualClock::kStart;

static_assert(!std::is_copy_constructible_v<Reservation>);
static_assert(std::is_nothrow_move_constructible_v<Reservation>);

TEST(Reservation, ReportsTheTimeOfItsTurn) {
  ManualClock clock;
  Limiter limiter{per_second(10).burst(2), clock};
  EXPECT_EQ(limiter.reserve(2).ready_at(), kStart);
  EXPECT_EQ(limiter.reserve().ready_at(), kStart + 100ms);
  const Reservation third = limiter.reserve(2);
  EXPECT_TRUE(third);
  EXPECT_EQ(third.ready_at(), kStart + 300ms);
  EXPECT_EQ(third.decision().wait, 300ms);
}

TEST(Reservation, IsRefusedWhenTheWaitWouldBeTooLong) {
  ManualClock clock;
  Limiter limiter{per_second(10).burst(2), clock};
  EXPECT_TRUE(limiter.reserve(2, 0s));
  for (const Nanos max_wait : {Nanos{0}, Nanos{-1}, Nanos::min()}) {
    const Reservation refused = limiter.reserve(1, max_wait);
    EXPECT_FALSE(refused);
    EXPECT_EQ(refused.ready_at(), kStart + 100ms);  // when to retry
  }
  EXPECT_EQ(limiter.reserve(1, 99ms).decision().retry_after, 1ms);
  EXPECT_TRUE(limiter.reserve(1, 100ms));
}

TEST(Reservation, WaitsForeverByDefault) {
  ManualClock clock;
  Limiter yearly{per(1, std::chrono::hours{365 * 24}), clock};
  for (int year = 0; year < 5; ++year) {
    EXPECT_EQ(yearly.reserve().ready_at(), kStart + year * std::chrono::hours{365 * 24});
  }
}

TEST(Reservation, IsNeverReadyForAnImpossibleCost) {
  ManualClock clock;
  Limiter limiter{per_second(10).burst(2), clock};
  EXPECT_EQ(limiter.reserve(3).ready_at(), Instant::max());
}

TEST(Reservation, GivesItsPermitsBackWhenCancelled) {
  ManualClock clock;
  for (const Limit& limit :
       {Limit{per_second(10)}, Limit{per_second(3).burst(10)}, Limit::window(10, 1s),
        Limit::sliding(10, 1s), Limit::sliding_exact(10, 1s), Limit::queue(per_second(10), 9, 9)}) {
    Limiter limiter{limit, clock};
    Reservation taken = limiter.reserve(4);
    EXPECT_EQ(taken.decision().remaining, 6);
    EXPECT_TRUE(taken.cancel());
    EXPECT_EQ(limiter.peek().remaining, 10);
    EXPECT_FALSE(taken);
    EXPECT_FALSE(taken.cancel());
    EXPECT_EQ(limiter.peek().remaining, 10);
  }
}

// In two tenths of a second, two of the four permits drain.
TEST(Reservation, GivesBackOnlyPermitsThatHaveNotDrained) {
  ManualClock clock;
  Limiter limiter{per_second(10).burst(10), clock};
  Reservation taken = limiter.reserve(4);
  EXPECT_TRUE(limiter.try_acquire(6));
  clock.advance(200ms);
  EXPECT_EQ(limiter.peek().remaining, 2);
  EXPECT_TRUE(taken.cancel());
  EXPECT_EQ(limiter.peek().remaining, 4);
}

TEST(Reservation, GivesNothingBackOnceItsTimeIsOver) {
  ManualClock clock;
  Limiter bucket{per_second(10).burst(10), clock};
  Limiter window{Limit::window(10, 1s), clock};
  Limiter exact{Limit::sliding_exact(10, 1s), clock};
  Reservation from_bucket = bucket.reserve(4);
  Reservation from_window = window.reserve(4);
  Reservation from_exact = exact.reserve(4);
  clock.advance(1s);
  for (Limiter* limiter : {&bucket, &window, &exact}) EXPECT_TRUE(limiter->try_acquire(6));
  EXPECT_FALSE(from_bucket.cancel());
  EXPECT_FALSE(from_window.cancel());
  EXPECT_FALSE(from_exact.cancel());
  for (Limiter* limiter : {&bucket, &window, &exact}) EXPECT_EQ(limiter->peek().remaining, 4);
}

// The reset has given its permits back already.
TEST(Reservation, GivesNothingBackAfterAReset) {
  ManualClock clock;
  for (const Limit& limit :
       {Limit{per_second(10)}, Limit::window(10, 1s), Limit::sliding_exact(10, 1s)}) {
    Limiter limiter{limit, clock};
    Reservation taken = limiter.reserve(4);
    limiter.reset();
    EXPECT_TRUE(limiter.try_acquire(10));
    EXPECT_FALSE(taken.cancel());
    EXPECT_EQ(limiter.peek().remaining, 0);
  }
}

// The work may start from a timer, long after the reservation object is gone.
TEST(Reservation, KeepsItsPermitsWhenDestroyed) {
  ManualClock clock;
  Limiter limiter{per_second(10), clock};
  (void)limiter.reserve(4);
  EXPECT_EQ(limiter.peek().remaining, 6);
}

TEST(Reservation, IsCancelledThroughTheObjectItWasMovedTo) {
  ManualClock clock;
  Limiter limiter{per_second(10), clock};
  Reservation first = limiter.reserve(4);
  Reservation second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT: that is what is tested
  EXPECT_FALSE(first.cancel());
  EXPECT_TRUE(second);
  first = std::move(second);
  EXPECT_TRUE(first.cancel());
  EXPECT_EQ(limiter.peek().remaining, 10);
}

TEST(Reservation, GivesNothingBackForACostOfZero) {
  ManualClock clock;
  for (const Limit& limit : {Limit{per_second(10)}, Limit::sliding_exact(10, 1s)}) {
    Limiter limiter{limit, clock};
    Reservation nothing = limiter.reserve(0);
    EXPECT_TRUE(nothing);
    EXPECT_FALSE(nothing.cancel());
  }
}

// A later caller's wait includes this reservation's permits, so they can no longer be given back.
TEST(Reservation, GivesNothingBackUnderASmoothLimiterAfterALaterCall) {
  ManualClock clock;
  SmoothLimiter limiter{per_second(10), clock};
  Reservation first = limiter.reserve();
  EXPECT_TRUE(first.cancel());
  Reservation again = limiter.reserve();
  EXPECT_EQ(again.ready_at(), kStart);
  EXPECT_EQ(limiter.reserve().ready_at(), kStart + 100ms);
  EXPECT_FALSE(again.cancel());
  EXPECT_EQ(limiter.reserve().ready_at(), kStart + 200ms);
}

}  // namespace
}  // namespace weir
