#include "weir/clock.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

#include "limiter/wall_time.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

// ---- What the process clock makes of the kernel's two

struct Readings {
  std::int64_t steady = 0;
  std::int64_t wall = 0;
  int looks_at_wall = 0;
  std::int64_t slowness = 0;  // how long it takes between the two

  void pass(Nanos time) {
    steady += time.count();
    wall += time.count();
  }
};

struct Fake {
  Readings* readings;
  std::int64_t steady() const noexcept { return readings->steady; }
  std::int64_t wall() const noexcept {
    ++readings->looks_at_wall;
    const std::int64_t wall = readings->wall;
    readings->pass(Nanos{readings->slowness});
    return wall;
  }
};

constexpr Instant kWall{std::chrono::hours{490'000}};

Readings at_start() { return {.steady = 5'000'000'000, .wall = ns(kWall)}; }

TEST(WallTime, ShowsWallTimeAndGoesOnWithTheSteadyClock) {
  Readings readings = at_start();
  const WallTime<Fake> time{Fake{&readings}};
  EXPECT_EQ(time.now(), kWall);
  readings.pass(10min);
  EXPECT_EQ(time.now(), kWall + 10min);
}

// Somebody sets the clock back an hour: the limits must neither refill nor lock up.
TEST(WallTime, DoesNotFollowAWallClockThatIsSetBack) {
  Readings readings = at_start();
  const WallTime<Fake> time{Fake{&readings}};
  readings.wall -= Nanos{1h}.count();
  readings.pass(5s);
  EXPECT_EQ(time.now(), kWall + 5s);
}

TEST(WallTime, FollowsAWallClockThatIsSetForwardWithinASecond) {
  Readings readings = at_start();
  const WallTime<Fake> time{Fake{&readings}};
  readings.wall += Nanos{1h}.count();
  readings.pass(1s - 1ns);
  EXPECT_EQ(time.now(), kWall + 1s - 1ns);
  readings.pass(1ns);
  EXPECT_EQ(time.now(), kWall + 1h + 1s);
}

// A wall clock is read in addition, which takes as long again.
TEST(WallTime, LooksAtTheWallClockOnceASecond) {
  Readings readings = at_start();
  const WallTime<Fake> time{Fake{&readings}};
  for (int i = 0; i < 1000; ++i) {
    readings.pass(10ms);
    (void)time.now();
  }
  EXPECT_EQ(readings.looks_at_wall, 1 + 10);
}

// The thread loses the processor between reading the one clock and the other.
TEST(WallTime, IsNotPutAheadByASlowLook) {
  Readings readings = at_start();
  const WallTime<Fake> time{Fake{&readings}};
  readings.slowness = 300'000'000;
  readings.pass(1s);
  EXPECT_EQ(time.now(), kWall + 1s);
}

// ---- The process clock

TEST(SystemClock, DoesNotGoBack) {
  const Clock& clock = system_clock();
  Instant last = clock.now();
  for (int i = 0; i < 100'000; ++i) {
    const Instant now = clock.now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(SystemClock, DoesNotSleepForWhatHasPassed) {
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_TRUE(system_clock().sleep_until(system_clock().now(), {}));
  EXPECT_TRUE(system_clock().sleep_until(Instant::min(), {}));
  EXPECT_TRUE(system_clock().sleep_until(Instant{}, stopped.get_token()));
}

TEST(SystemClock, DoesNotSleepWhenStoppedBefore) {
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_FALSE(system_clock().sleep_until(Instant::max(), stopped.get_token()));
}

TEST(SystemClock, IsWokenByAStop) {
  std::stop_source source;
  std::jthread stopper([&] { source.request_stop(); });
  EXPECT_FALSE(system_clock().sleep_until(Instant::max(), source.get_token()));
}

TEST(SystemClock, WakesWhenTheTimeHasCome) {
  const Instant soon = system_clock().now() + 1ms;
  EXPECT_TRUE(system_clock().sleep_until(soon, {}));
  EXPECT_GE(system_clock().now(), soon);
}

// ---- The clock for tests

TEST(ManualClock, StandsStillUntilMoved) {
  ManualClock clock;
  EXPECT_EQ(clock.now(), std::chrono::sys_days{std::chrono::year{2026} / 1 / 1});
  clock.advance(5s);
  EXPECT_EQ(clock.now(), ManualClock::kStart + 5s);
  clock.set(ManualClock::kStart - 5s);
  EXPECT_EQ(clock.now(), ManualClock::kStart - 5s);
  EXPECT_EQ(ManualClock{Instant{1s}}.now(), Instant{1s});
}

TEST(ManualClock, DoesNotMoveBeyondItsRange) {
  ManualClock clock;
  clock.advance(kForever);
  EXPECT_EQ(clock.now(), Instant::max());
}

TEST(ManualClock, IsMovedBySleepers) {
  ManualClock clock;
  EXPECT_TRUE(clock.sleep_until(ManualClock::kStart + 5s, {}));
  EXPECT_EQ(clock.now(), ManualClock::kStart + 5s);
  EXPECT_TRUE(clock.sleep_until(ManualClock::kStart, {}));
  EXPECT_EQ(clock.now(), ManualClock::kStart + 5s);
}

TEST(ManualClock, IsNotMovedByOneWhoWasStopped) {
  ManualClock clock;
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_FALSE(clock.sleep_until(ManualClock::kStart + 5s, stopped.get_token()));
  EXPECT_EQ(clock.now(), ManualClock::kStart);
}

// A sleep without end moves no clock: otherwise the time would be the end of all times.
TEST(ManualClock, DoesNotMoveToTheEndOfTime) {
  ManualClock clock;
  std::stop_source source;
  std::jthread stopper([&] {
    clock.await_sleepers(1);
    source.request_stop();
  });
  EXPECT_FALSE(clock.sleep_until(Instant::max(), source.get_token()));
  EXPECT_EQ(clock.now(), ManualClock::kStart);
}

TEST(ManualClock, WakesSleepersWhenAnotherThreadMovesIt) {
  ManualClock clock{ManualClock::Sleepers::wait_for_others};
  bool early = false;
  bool late = true;
  {
    std::jthread one([&] { early = clock.sleep_until(ManualClock::kStart + 1s, {}); });
    std::jthread other([&](const std::stop_token& stop) {
      late = clock.sleep_until(ManualClock::kStart + 9s, stop);
    });
    clock.await_sleepers(2);
    clock.advance(1s);
    one.join();
    clock.await_sleepers(1);  // the other sleeps on
    other.request_stop();
  }
  EXPECT_TRUE(early);
  EXPECT_FALSE(late);
}

}  // namespace
}  // namespace weir
