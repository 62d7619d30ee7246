#include "weir/clock.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

#include "limiter/wall_time.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

// ---- WallTime, on fake kernel clocks

struct Readings {
  std::int64_t monotonic = 0;
  std::int64_t wall = 0;
  int wall_reads = 0;
  std::int64_t slowness = 0;  // time that passes between the reads of the two clocks

  void pass(Nanos time) {
    monotonic += time.count();
    wall += time.count();
  }
};

struct Fake {
  Readings* readings;
  std::int64_t monotonic() const noexcept { return readings->monotonic; }
  std::int64_t wall() const noexcept {
    ++readings->wall_reads;
    const std::int64_t wall = readings->wall;
    readings->pass(Nanos{readings->slowness});
    return wall;
  }
};

constexpr Instant kWall{std::chrono::hours{490'000}};

Readings at_start() { return {.monotonic = 5'000'000'000, .wall = ns(kWall)}; }

TEST(WallTime, StartsAtTheWallClockAndFollowsTheMonotonicClock) {
  Readings readings = at_start();
  const WallTime<Fake> time{Fake{&readings}};
  EXPECT_EQ(time.now(), kWall);
  readings.pass(10min);
  EXPECT_EQ(time.now(), kWall + 10min);
}

// When the clock is set back an hour, limits must neither refill nor lock up.
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

// The second read would double the cost of every call.
TEST(WallTime, ReadsTheWallClockOnceASecond) {
  Readings readings = at_start();
  const WallTime<Fake> time{Fake{&readings}};
  for (int i = 0; i < 1000; ++i) {
    readings.pass(10ms);
    (void)time.now();
  }
  EXPECT_EQ(readings.wall_reads, 1 + 10);
}

// The thread may be preempted between the reads of the two clocks.
TEST(WallTime, IsNotSetForwardByADelayBetweenTheReads) {
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

TEST(SystemClock, DoesNotSleepUntilAPastInstant) {
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_TRUE(system_clock().sleep_until(system_clock().now(), {}));
  EXPECT_TRUE(system_clock().sleep_until(Instant::min(), {}));
  EXPECT_TRUE(system_clock().sleep_until(Instant{}, stopped.get_token()));
}

TEST(SystemClock, DoesNotSleepWhenAlreadyStopped) {
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_FALSE(system_clock().sleep_until(Instant::max(), stopped.get_token()));
}

TEST(SystemClock, StopsSleepingWhenStopped) {
  std::stop_source source;
  std::jthread stopper([&] { source.request_stop(); });
  EXPECT_FALSE(system_clock().sleep_until(Instant::max(), source.get_token()));
}

TEST(SystemClock, WakesAtTheInstant) {
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

TEST(ManualClock, IsAdvancedBySleepers) {
  ManualClock clock;
  EXPECT_TRUE(clock.sleep_until(ManualClock::kStart + 5s, {}));
  EXPECT_EQ(clock.now(), ManualClock::kStart + 5s);
  EXPECT_TRUE(clock.sleep_until(ManualClock::kStart, {}));
  EXPECT_EQ(clock.now(), ManualClock::kStart + 5s);
}

TEST(ManualClock, IsNotAdvancedByAStoppedSleeper) {
  ManualClock clock;
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_FALSE(clock.sleep_until(ManualClock::kStart + 5s, stopped.get_token()));
  EXPECT_EQ(clock.now(), ManualClock::kStart);
}

// An unlimited sleep must not set the clock to the latest instant.
TEST(ManualClock, IsNotAdvancedByAnUnlimitedSleep) {
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
    clock.await_sleepers(1);  // the other thread still sleeps
    other.request_stop();
  }
  EXPECT_TRUE(early);
  EXPECT_FALSE(late);
}

}  // namespace
}  // namespace weir
