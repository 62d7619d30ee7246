#include "net/timers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <random>
#include <vector>

namespace weir::net {
namespace {

using SteadyClock = Timers::SteadyClock;
using std::chrono::milliseconds;

const SteadyClock::time_point kStart{std::chrono::hours{1}};

TEST(Timers, FireOnceWhenDue) {
  Timers timers;
  int fired = 0;
  Timer timer(timers, [&] { ++fired; });
  timer.set(kStart + milliseconds{5});
  EXPECT_EQ(timers.next(), kStart + milliseconds{5});
  timers.run(kStart + milliseconds{4});
  EXPECT_EQ(fired, 0);
  timers.run(kStart + milliseconds{5});
  timers.run(kStart + milliseconds{6});
  EXPECT_EQ(fired, 1);
  EXPECT_FALSE(timer.is_set());
}

TEST(Timers, CanBePostponedMovedEarlierAndCancelled) {
  Timers timers;
  int fired = 0;
  Timer timer(timers, [&] { ++fired; });
  timer.set(kStart + milliseconds{5});
  timer.set(kStart + milliseconds{9});
  timers.run(kStart + milliseconds{8});
  EXPECT_EQ(fired, 0);
  timer.set(kStart + milliseconds{8});
  timers.run(kStart + milliseconds{8});
  EXPECT_EQ(fired, 1);
  timer.set(kStart + milliseconds{10});
  timer.cancel();
  timers.run(kStart + milliseconds{20});
  EXPECT_EQ(fired, 1);
  timer.set(SteadyClock::time_point::max());
  EXPECT_FALSE(timer.is_set());
}

TEST(Timers, CanBeSetAgainInTheirCallbackAndDestroyedBeforeTheyFire) {
  Timers timers;
  int fired = 0;
  Timer again(timers, [&] {
    if (++fired < 3) again.set(kStart + milliseconds{fired});
  });
  {
    Timer gone(timers, [&] { fired += 100; });
    gone.set(kStart);
    again.set(kStart);
  }
  timers.run(kStart + milliseconds{10});
  EXPECT_EQ(fired, 3);
}

// Random setting, postponing and cancelling: each timer fires at the time it was last set to.
TEST(Timers, FireInTheOrderOfTheirTimes) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    Timers timers;
    std::vector<int> wanted(40, -1);
    std::vector<std::pair<int, int>> fired;  // time, timer
    int now = 0;
    std::deque<Timer> all;
    for (int i = 0; i < 40; ++i)
      all.emplace_back(timers, [&fired, &now, i] { fired.emplace_back(now, i); });
    for (int i = 0; i < 300; ++i) {
      const auto which = random() % 40;
      const int when = static_cast<int>(random() % 100) + 1;
      if (random() % 4 == 0) {
        all[which].cancel();
        wanted[which] = -1;
      } else {
        all[which].set(kStart + milliseconds{when});
        wanted[which] = when;
      }
    }
    for (now = 0; now <= 101; ++now) timers.run(kStart + milliseconds{now});
    std::vector<int> seen(40, -1);
    for (const auto& [when, which] : fired) seen[static_cast<std::size_t>(which)] = when;
    EXPECT_EQ(seen, wanted);
    EXPECT_EQ(timers.next(), SteadyClock::time_point::max());
  }
}

}  // namespace
}  // namespace weir::net
