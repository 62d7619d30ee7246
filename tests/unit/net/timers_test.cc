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

TEST(Timers, RingOnceWhenTheirTimeHasCome) {
  Timers timers;
  int rung = 0;
  Timer timer(timers, [&] { ++rung; });
  timer.set(kStart + milliseconds{5});
  EXPECT_EQ(timers.next(), kStart + milliseconds{5});
  timers.run(kStart + milliseconds{4});
  EXPECT_EQ(rung, 0);
  timers.run(kStart + milliseconds{5});
  timers.run(kStart + milliseconds{6});
  EXPECT_EQ(rung, 1);
  EXPECT_FALSE(timer.is_set());
}

TEST(Timers, CanBePutOffHastenedAndCancelled) {
  Timers timers;
  int rung = 0;
  Timer timer(timers, [&] { ++rung; });
  timer.set(kStart + milliseconds{5});
  timer.set(kStart + milliseconds{9});
  timers.run(kStart + milliseconds{8});
  EXPECT_EQ(rung, 0);
  timer.set(kStart + milliseconds{8});
  timers.run(kStart + milliseconds{8});
  EXPECT_EQ(rung, 1);
  timer.set(kStart + milliseconds{10});
  timer.cancel();
  timers.run(kStart + milliseconds{20});
  EXPECT_EQ(rung, 1);
  timer.set(SteadyClock::time_point::max());
  EXPECT_FALSE(timer.is_set());
}

TEST(Timers, MayBeSetAnewWhileTheyRingAndGoBeforeTheyDo) {
  Timers timers;
  int rung = 0;
  Timer again(timers, [&] {
    if (++rung < 3) again.set(kStart + milliseconds{rung});
  });
  {
    Timer gone(timers, [&] { rung += 100; });
    gone.set(kStart);
    again.set(kStart);
  }
  timers.run(kStart + milliseconds{10});
  EXPECT_EQ(rung, 3);
}

// Any order of setting, putting off and cancelling: each rings at its last time, in order.
TEST(Timers, RingInTheOrderOfTheirTimes) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    Timers timers;
    std::vector<int> wanted(40, -1);
    std::vector<std::pair<int, int>> rung;  // when, who
    int now = 0;
    std::deque<Timer> all;
    for (int i = 0; i < 40; ++i)
      all.emplace_back(timers, [&rung, &now, i] { rung.emplace_back(now, i); });
    for (int i = 0; i < 300; ++i) {
      const auto who = random() % 40;
      const int when = static_cast<int>(random() % 100) + 1;
      if (random() % 4 == 0) {
        all[who].cancel();
        wanted[who] = -1;
      } else {
        all[who].set(kStart + milliseconds{when});
        wanted[who] = when;
      }
    }
    for (now = 0; now <= 101; ++now) timers.run(kStart + milliseconds{now});
    std::vector<int> seen(40, -1);
    for (const auto& [when, who] : rung) seen[static_cast<std::size_t>(who)] = when;
    EXPECT_EQ(seen, wanted);
    EXPECT_EQ(timers.next(), SteadyClock::time_point::max());
  }
}

}  // namespace
}  // namespace weir::net
