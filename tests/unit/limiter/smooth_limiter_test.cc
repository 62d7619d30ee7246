#include "weir/smooth_limiter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "threads.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

// A limiter on a clock that sleepers advance, with an event log in the style of Guava's own tests:
// R0.20 for an acquire that slept 0.2 s, U0.20 for time that passed otherwise.
class Stage {
 public:
  template <typename... Args>
  explicit Stage(Args... args) : limiter(args..., clock) {}

  void acquire(std::initializer_list<Permits> all) {
    for (const Permits permits : all) note('R', limiter.acquire(permits));
  }
  void acquire_eight() { acquire({1, 1, 1, 1, 1, 1, 1, 1}); }
  void pass(Nanos time) {
    clock.advance(time);
    note('U', time);
  }
  bool try_acquire(Permits permits, Nanos timeout) {
    const Instant before = clock.now();
    const bool passed = static_cast<bool>(limiter.try_acquire(permits, timeout));
    if (passed) note('R', clock.now() - before);
    return passed;
  }

  // The events since the last call.
  std::string log() { return std::exchange(log_, {}); }

  ManualClock clock;
  SmoothLimiter limiter;

 private:
  void note(char what, Nanos time) {
    const auto hundredths = (time + 5ms) / 10ms;
    char text[32];
    std::snprintf(text, sizeof(text), "%s%c%d.%02d", log_.empty() ? "" : " ", what,
                  static_cast<int>(hundredths / 100), static_cast<int>(hundredths % 100));
    log_ += text;
  }

  std::string log_;
};

TEST(SmoothLimiter, SpacesCallersFromTheFirstCallOn) {
  Stage stage{per_second(5)};
  stage.acquire({1, 1, 1});
  EXPECT_EQ(stage.log(), "R0.00 R0.20 R0.20");
}

TEST(SmoothLimiter, DoesNotDelayACallerThatComesInTime) {
  Stage stage{per_second(5)};
  stage.acquire({1});
  stage.pass(200ms);
  stage.acquire({1, 1});
  EXPECT_EQ(stage.log(), "R0.00 U0.20 R0.00 R0.20");
}

// Five permits are saved up in a second, and the sixth is on credit.
TEST(SmoothLimiter, SavesUpOneSecondOfPermits) {
  Stage stage{per_second(5)};
  stage.pass(1s);
  stage.pass(1s);
  stage.acquire({1, 1, 3, 1, 1});
  EXPECT_EQ(stage.log(), "U1.00 U1.00 R0.00 R0.00 R0.00 R0.00 R0.20");
}

TEST(SmoothLimiter, MakesTheNextCallerWait) {
  Stage stage{per_second(1)};
  stage.acquire({1, 1, 2, 4, 8, 1});
  EXPECT_EQ(stage.log(), "R0.00 R1.00 R1.00 R2.00 R4.00 R8.00");
}

// The first caller after the change still waits at the old rate for the call before it.
TEST(SmoothLimiter, ChangesItsRateAtRunTime) {
  Stage stage{per_second(1)};
  stage.acquire({1, 1});
  stage.limiter.set_rate(per_second(2));
  stage.acquire({1, 2, 4, 1});
  EXPECT_EQ(stage.log(), "R0.00 R1.00 R1.00 R0.50 R1.00 R2.00");
  EXPECT_EQ(stage.limiter.rate(), per_second(2));
}

TEST(SmoothLimiter, WarmsUpFromCold) {
  constexpr const char* from_cold = "R0.00 R1.38 R1.13 R0.88 R0.63 R0.50 R0.50 R0.50";
  Stage stage{per_second(2), 4s};
  stage.acquire_eight();
  EXPECT_EQ(stage.log(), from_cold);
  stage.pass(500ms);
  stage.pass(4s);
  stage.acquire_eight();
  EXPECT_EQ(stage.log(), std::string("U0.50 U4.00 ") + from_cold);
  // After half of the warm-up time idle, it is still warm.
  stage.pass(500ms);
  stage.pass(2s);
  stage.acquire_eight();
  EXPECT_EQ(stage.log(), "U0.50 U2.00 R0.00 R0.50 R0.50 R0.50 R0.50 R0.50 R0.50 R0.50");
}

TEST(SmoothLimiter, WaitsNoLongerThanItsTimeout) {
  Stage stage{per_second(5)};
  EXPECT_TRUE(stage.try_acquire(1, 0s));
  EXPECT_TRUE(stage.try_acquire(1, 200ms));
  EXPECT_FALSE(stage.try_acquire(1, 100ms));
  stage.pass(100ms);
  EXPECT_TRUE(stage.try_acquire(1, 100ms));
  EXPECT_EQ(stage.log(), "R0.00 R0.20 U0.10 R0.10");
}

TEST(SmoothLimiter, TreatsANegativeTimeoutAsZero) {
  Stage stage{per_second(5)};
  EXPECT_TRUE(stage.try_acquire(5, 0s));
  stage.pass(900ms);
  EXPECT_FALSE(stage.try_acquire(1, Nanos::min()));
  stage.pass(100ms);
  EXPECT_TRUE(stage.try_acquire(1, -1s));
}

TEST(SmoothLimiter, WaitsForeverIfAllowed) {
  Stage stage{per_second(5)};
  EXPECT_TRUE(stage.try_acquire(1, 0s));
  stage.pass(100ms);
  EXPECT_TRUE(stage.try_acquire(1, kForever));
  EXPECT_EQ(stage.log(), "R0.00 U0.10 R0.10");
}

TEST(SmoothLimiter, NeverRefusesACallForItsSize) {
  Stage stage{per_second(5)};
  EXPECT_TRUE(stage.limiter.try_acquire(1'000'000));
  EXPECT_EQ(stage.limiter.try_acquire().retry_after, 200'000s);
}

TEST(SmoothLimiter, SupportsOnePermitInDecades) {
  Stage stage{per(1, Nanos{std::int64_t{1} << 61})};
  EXPECT_TRUE(stage.try_acquire(1, 0s));
  EXPECT_FALSE(stage.try_acquire(1, 0s));
  stage.clock.advance(24h * 24);
  EXPECT_FALSE(stage.try_acquire(1, 0s));
}

int admits(SmoothLimiter& limiter, int n) {
  int admitted = 0;
  for (int i = 0; i < n; ++i) admitted += limiter.try_acquire() ? 1 : 0;
  return admitted;
}

TEST(SmoothLimiter, AdmitsOneCallWhenNewAndElevenAfterARest) {
  Stage stage{per_second(10)};
  EXPECT_EQ(admits(stage.limiter, 100), 1);
  stage.clock.advance(2s);
  EXPECT_EQ(admits(stage.limiter, 100), 11);
}

// The limiter is a FIFO queue: later callers wait longer.
TEST(SmoothLimiter, AdmitsElevenOfAHundredThreads) {
  Stage stage{per_second(10)};
  stage.clock.advance(2s);
  std::atomic<int> admitted{0};
  together(4, [&](int) { admitted += admits(stage.limiter, 25); });
  EXPECT_EQ(admitted, 11);
}

// After any change and a long rest, one second of permits needs no wait, and the next one does.
TEST(SmoothLimiter, SavesUpOneSecondAfterRateChanges) {
  Stage stage{per_second(1)};
  for (const Permits rate : {1000, 1, 10, 1'000'000, 10, 1}) {
    stage.limiter.set_rate(per_second(rate));
    stage.clock.advance(10s);
    EXPECT_EQ(stage.limiter.acquire(rate), 0s);
    EXPECT_EQ(stage.limiter.acquire(rate), 0s);
    EXPECT_EQ(stage.limiter.acquire(1), 1s);
  }
}

// Going from cold to warm takes the warm-up time, in however many calls permits are taken.
TEST(SmoothLimiter, WarmsUpInTheSameTimeForAnyCallSizes) {
  const std::vector<std::vector<Permits>> pieces = {
      {10}, {5, 5}, {1, 9}, {9, 1}, {3, 3, 4}, {2, 2, 2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};
  for (const Rate rate : {per_second(4), per_second(2), per_second(1), per(1, 2s), per(1, 10s)}) {
    // Ten permits lie between cold and warm.
    const Nanos warm_up = 20 * rate.period() / rate.count();
    for (const auto& some : pieces) {
      Stage stage{rate, warm_up};
      Nanos waited{0};
      for (const Permits permits : some) waited += stage.limiter.acquire(permits);
      waited += stage.limiter.acquire(1);
      EXPECT_EQ(waited, warm_up);
    }
  }
}

TEST(SmoothLimiter, KeepsItsWarmUpThroughRateChanges) {
  Stage stage{per_second(2), 4s};
  stage.limiter.set_rate(per_second(4));
  stage.acquire_eight();
  // Permits cost half as much: 250 ms each of the four saved seconds.
  EXPECT_EQ(stage.log(), "R0.00 R0.72 R0.66 R0.59 R0.53 R0.47 R0.41 R0.34");
}

TEST(SmoothLimiter, RefusesAtOnceWhenTheTurnWouldComeTooLate) {
  Stage stage{per_second(5)};
  EXPECT_EQ(stage.limiter.acquire(Deadline::after(0s)).wait, 0s);
  EXPECT_EQ(stage.limiter.acquire(Deadline::after(199ms)).retry_after, 1ms);
  EXPECT_EQ(stage.limiter.acquire(Deadline::at(stage.clock.now() + 200ms)).wait, 200ms);
  EXPECT_EQ(stage.limiter.acquire(Deadline::never(), 3).wait, 200ms);
}

TEST(SmoothLimiter, TakesNothingWhenStopped) {
  ManualClock clock{ManualClock::Sleepers::wait_for_others};
  SmoothLimiter limiter{per_second(5), clock};
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_EQ(limiter.acquire(Deadline::never(), 1, stopped.get_token()).outcome, Outcome::limited);

  EXPECT_TRUE(limiter.try_acquire());
  Decision answer;
  {
    std::jthread waiter(
        [&](const std::stop_token& stop) { answer = limiter.acquire(Deadline::never(), 1, stop); });
    clock.await_sleepers(1);
  }
  EXPECT_EQ(answer.outcome, Outcome::limited);
  EXPECT_EQ(answer.retry_after, 200ms);
  EXPECT_EQ(limiter.reserve().decision().wait, 200ms);
}

TEST(SmoothLimiter, ReportsInvalidNumbers) {
  EXPECT_THROW(SmoothLimiter{per_second(2'000'000'000)}, std::invalid_argument);
  EXPECT_THROW((SmoothLimiter{per_second(1), -1s}), std::invalid_argument);
  EXPECT_THROW((SmoothLimiter{per_second(1), 5h}), std::invalid_argument);
  SmoothLimiter limiter{per_second(1)};
  EXPECT_THROW(limiter.set_rate(per_second(2'000'000'000)), std::invalid_argument);
  EXPECT_EQ(limiter.rate(), per_second(1));
  EXPECT_THROW(limiter.acquire(-1), std::invalid_argument);
  EXPECT_EQ(limiter.try_acquire(-1).outcome, Outcome::impossible);
}

}  // namespace
}  // namespace weir
