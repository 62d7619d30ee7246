#include "weir/keyed_limiter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "limiter/limit_access.h"
#include "threads.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr Instant kStart = ManualClock::kStart;
constexpr KeyedOptions kFew{.max_keys = 100, .record_bytes = 1 << 20};

// A capacity of ten, by each algorithm.
std::vector<Limit> tens() {
  return {per_second(10),         per_second(7).burst(10),      Limit::window(10, 1h),
          Limit::sliding(10, 1h), Limit::sliding_exact(10, 1h), Limit::queue(per_second(10), 9, 9)};
}

int admits(KeyedLimiter& limiter, std::string_view key, int n) {
  int admitted = 0;
  for (int i = 0; i < n; ++i) admitted += limiter.try_acquire(key) ? 1 : 0;
  return admitted;
}

std::string numbered(int i) { return "key " + std::to_string(i); }

// ---- try_acquire

TEST(KeyedLimiter, LimitsEachKeySeparately) {
  for (const Limit& limit : tens()) {
    ManualClock clock;
    KeyedLimiter limiter{limit, kFew, clock};
    EXPECT_EQ(admits(limiter, "alice", 20), 10);
    EXPECT_EQ(admits(limiter, "bob", 20), 10);
    EXPECT_EQ(admits(limiter, "alice", 20), 0);
  }
}

TEST(KeyedLimiter, ReportsAllNumbersOfADecision) {
  ManualClock clock;
  KeyedLimiter limiter{per_second(10), kFew, clock};
  EXPECT_EQ(limiter.try_acquire("k", 4),
            (Decision{.limit = 10, .remaining = 6, .reset_after = 400ms}));
  EXPECT_EQ(limiter.try_acquire("k", 7), (Decision{.outcome = Outcome::limited,
                                                   .limit = 10,
                                                   .remaining = 6,
                                                   .retry_after = 100ms,
                                                   .reset_after = 400ms}));
  clock.advance(100ms);
  EXPECT_TRUE(limiter.try_acquire("k", 7));
}

TEST(KeyedLimiter, DecidesByTheCallersTime) {
  ManualClock clock;
  KeyedLimiter limiter{per_second(1), kFew, clock};
  EXPECT_TRUE(limiter.try_acquire_at(kStart + 10s, "k"));
  EXPECT_FALSE(limiter.try_acquire_at(kStart + 10s, "k"));
  EXPECT_TRUE(limiter.try_acquire_at(kStart + 11s, "k"));
  EXPECT_EQ(limiter.try_acquire("k").retry_after, 12s);
}

TEST(KeyedLimiter, AcceptsAnyInstant) {
  for (const Limit& limit : tens()) {
    KeyedLimiter limiter{limit, kFew};
    EXPECT_TRUE(limiter.try_acquire_at(Instant::min(), "k", 10));
    EXPECT_FALSE(limiter.try_acquire_at(Instant{}, "k"));
    EXPECT_TRUE(limiter.try_acquire_at(Instant::max(), "k", 10));
    EXPECT_FALSE(limiter.try_acquire_at(Instant::max(), "k"));
    EXPECT_FALSE(limiter.try_acquire_at(Instant::min(), "k"));
  }
}

TEST(KeyedLimiter, RefusesInvalidCosts) {
  constexpr Permits least = std::numeric_limits<Permits>::min();
  constexpr Permits most = std::numeric_limits<Permits>::max();
  for (const Limit& limit : tens()) {
    ManualClock clock;
    KeyedLimiter limiter{limit, kFew, clock};
    EXPECT_TRUE(limiter.try_acquire("k", 0));
    EXPECT_TRUE(limiter.try_acquire("k", 6));
    for (const Permits cost : {least, Permits{-1}, Permits{11}, most}) {
      EXPECT_EQ(limiter.try_acquire("k", cost).outcome, Outcome::impossible);
      EXPECT_EQ(limiter.peek("k", cost).outcome, Outcome::impossible);
      EXPECT_FALSE(limiter.reserve("k", cost));
      EXPECT_EQ(limiter.acquire("k", Deadline::never(), cost).outcome, Outcome::impossible);
    }
    EXPECT_EQ(limiter.peek("k").remaining, 4);
  }
}

TEST(KeyedLimiter, PeeksWithoutTaking) {
  for (const Limit& limit : tens()) {
    ManualClock clock;
    const KeyedLimiter unused{limit, kFew, clock};
    EXPECT_EQ(unused.peek("k").remaining, 10);
    EXPECT_EQ(unused.memory().live, 0u);
    KeyedLimiter limiter{limit, kFew, clock};
    EXPECT_TRUE(limiter.try_acquire("k", 6));
    EXPECT_TRUE(limiter.peek("k", 4));
    EXPECT_FALSE(limiter.peek("k", 5));
    EXPECT_EQ(limiter.peek("k").remaining, 4);
  }
}

TEST(KeyedLimiter, ResetsOnlyTheGivenKey) {
  for (const Limit& limit : tens()) {
    ManualClock clock;
    KeyedLimiter limiter{limit, kFew, clock};
    EXPECT_EQ(admits(limiter, "alice", 20), 10);
    EXPECT_EQ(admits(limiter, "bob", 20), 10);
    limiter.reset("alice");
    limiter.reset("nobody");
    EXPECT_EQ(admits(limiter, "alice", 20), 10);
    EXPECT_EQ(admits(limiter, "bob", 20), 0);
  }
}

// Smooth limits have no factory in Limit; they are made from text.
TEST(KeyedLimiter, SupportsSmoothLimits) {
  ManualClock clock;
  KeyedLimiter limiter{limit_of(*core::Smooth::make({10, 1, 1s})), kFew, clock};
  EXPECT_TRUE(limiter.try_acquire("k", 11));  // the next caller waits for it
  EXPECT_EQ(limiter.try_acquire("k").retry_after, 100ms);
  EXPECT_EQ(limiter.acquire("k", Deadline::never()).wait, 100ms);
}

// ---- Keys

TEST(KeyedLimiter, AcceptsAnyBytesAsAKey) {
  ManualClock clock;
  KeyedLimiter limiter{per_hour(1), kFew, clock};
  using namespace std::string_view_literals;
  const std::string longest(4096, 'x');
  std::string other = longest;
  other.back() = 'y';
  for (const std::string_view key : {"a"sv, "a\0"sv, "a\0b"sv, "\0"sv, "\xff"sv, " "sv,
                                     std::string_view{longest}, std::string_view{other}}) {
    EXPECT_EQ(admits(limiter, key, 3), 1);
  }
}

// Every operation refuses an invalid key for good, and remembers nothing of it.
TEST(KeyedLimiter, ReportsInvalidKeysAsImpossible) {
  const std::string too_long(4097, 'x');
  for (const std::string_view key : {std::string_view{}, std::string_view{too_long}}) {
    ManualClock clock;
    KeyedLimiter limiter{per_second(10), kFew, clock};
    const Decision no{
        .outcome = Outcome::impossible, .limit = 10, .remaining = 0, .retry_after = kNever};
    EXPECT_EQ(limiter.try_acquire(key), no);
    EXPECT_EQ(limiter.try_acquire(key, 0), no);
    EXPECT_EQ(limiter.try_acquire_at(kStart, key), no);
    EXPECT_EQ(limiter.peek(key), no);
    EXPECT_EQ(limiter.acquire(key, Deadline::never()), no);
    Reservation reserved = limiter.reserve(key);
    EXPECT_FALSE(reserved);
    EXPECT_EQ(reserved.decision(), no);
    EXPECT_EQ(reserved.ready_at(), Instant::max());
    EXPECT_FALSE(reserved.cancel());
    limiter.reset(key);
    Decision decision;
    limiter.try_acquire_all({&key, 1}, {&decision, 1});
    EXPECT_EQ(decision, no);
    EXPECT_EQ(limiter.memory().live, 0u);
    EXPECT_EQ(clock.now(), kStart);
  }
}

// ---- Batches

TEST(KeyedLimiter, DecidesABatchAsSingleCalls) {
  const std::string too_long(4097, 'x');
  for (const Limit& limit : tens()) {
    std::minstd_rand random(20260101);
    ManualClock clock;
    KeyedLimiter together{limit, kFew, clock};
    KeyedLimiter one_by_one{limit, kFew, clock};
    for (int round = 0; round < 50; ++round) {
      std::vector<std::string> texts(random() % 50);
      for (std::string& text : texts) text = numbered(static_cast<int>(random() % 5));
      std::vector<std::string_view> keys(texts.begin(), texts.end());
      if (keys.size() > 20) {
        keys[7] = {};
        keys[17] = too_long;
      }
      const auto cost = static_cast<Permits>(random() % 3);
      std::vector<Decision> decisions(keys.size());
      together.try_acquire_all(keys, decisions, cost);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        EXPECT_EQ(decisions[i], one_by_one.try_acquire(keys[i], cost));
      }
      clock.advance(Nanos{random() % 3 * 300'000'000});
    }
  }
}

TEST(KeyedLimiter, DecidesBatchesOfAnySize) {
  for (const std::size_t size : {0u, 1u, 15u, 16u, 17u, 33u, 1000u}) {
    ManualClock clock;
    KeyedLimiter limiter{per_hour(20), kFew, clock};
    const std::vector<std::string_view> keys(size, "k");
    std::vector<Decision> decisions(size);
    limiter.try_acquire_all(keys, decisions);
    for (std::size_t i = 0; i < size; ++i) EXPECT_EQ(static_cast<bool>(decisions[i]), i < 20);
  }
}

// ---- Reservations

TEST(KeyedLimiter, ReservesATurn) {
  ManualClock clock;
  KeyedLimiter limiter{per_second(10).burst(2), kFew, clock};
  EXPECT_EQ(limiter.reserve("k", 2).ready_at(), kStart);
  EXPECT_EQ(limiter.reserve("k").ready_at(), kStart + 100ms);
  EXPECT_EQ(limiter.reserve("other").ready_at(), kStart);
  const Reservation refused = limiter.reserve("k", 1, 100ms);
  EXPECT_FALSE(refused);
  EXPECT_EQ(refused.ready_at(), kStart + 100ms);  // when to retry
  EXPECT_TRUE(limiter.reserve("k", 1, 200ms));
}

TEST(KeyedLimiter, GivesPermitsBackWhenAReservationIsCancelled) {
  for (const Limit& limit : tens()) {
    ManualClock clock;
    KeyedLimiter limiter{limit, kFew, clock};
    EXPECT_TRUE(limiter.try_acquire("other", 5));
    Reservation taken = limiter.reserve("k", 4);
    EXPECT_EQ(taken.decision().remaining, 6);
    EXPECT_TRUE(limiter.try_acquire("k", 2));
    EXPECT_TRUE(taken.cancel());
    EXPECT_FALSE(taken.cancel());
    EXPECT_EQ(limiter.peek("k").remaining, 8);
    EXPECT_EQ(limiter.peek("other").remaining, 5);
  }
}

TEST(KeyedLimiter, GivesBackOnlyPermitsThatHaveNotDrained) {
  ManualClock clock;
  KeyedLimiter limiter{per_second(10), kFew, clock};
  Reservation taken = limiter.reserve("k", 4);
  EXPECT_TRUE(limiter.try_acquire("k", 6));
  clock.advance(200ms);
  EXPECT_TRUE(taken.cancel());
  EXPECT_EQ(limiter.peek("k").remaining, 4);
  Reservation late = limiter.reserve("k", 4);
  clock.advance(1s);
  EXPECT_TRUE(limiter.try_acquire("k", 6));
  EXPECT_FALSE(late.cancel());
  EXPECT_EQ(limiter.peek("k").remaining, 4);
}

TEST(KeyedLimiter, GivesNothingBackAfterAReset) {
  for (const Limit& limit : tens()) {
    ManualClock clock;
    KeyedLimiter limiter{limit, kFew, clock};
    Reservation taken = limiter.reserve("k", 4);
    limiter.reset("k");
    EXPECT_TRUE(limiter.try_acquire("k", 10));
    EXPECT_FALSE(taken.cancel());
    EXPECT_EQ(limiter.peek("k").remaining, 0);
  }
}

// ---- Waiting

TEST(KeyedLimiter, WaitsForATurn) {
  ManualClock clock;
  KeyedLimiter limiter{per_second(10).burst(1), kFew, clock};
  EXPECT_EQ(limiter.acquire("k", Deadline::after(1s)).wait, 0s);
  EXPECT_EQ(limiter.acquire("k", Deadline::after(1s)).wait, 100ms);
  EXPECT_EQ(clock.now(), kStart + 100ms);
  EXPECT_EQ(limiter.acquire("other", Deadline::after(1s)).wait, 0s);
}

// Both under limits that reserve turns and under limits that retry.
TEST(KeyedLimiter, WaitsUnderEveryLimit) {
  for (const Limit& limit : {Limit{per_second(1)}, Limit::window(1, 1s),
                             Limit::sliding_exact(1, 1s), Limit::queue(per_second(1), 5)}) {
    ManualClock clock;
    KeyedLimiter limiter{limit, kFew, clock};
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(limiter.acquire("k", Deadline::never()));
      EXPECT_EQ(clock.now(), kStart + i * 1s);
    }
  }
}

TEST(KeyedLimiter, DoesNotWaitForATurnThatWouldComeTooLate) {
  for (const Limit& limit :
       {Limit{per_second(1)}, Limit::window(1, 1s), Limit::sliding_exact(1, 1s)}) {
    ManualClock clock;
    KeyedLimiter limiter{limit, kFew, clock};
    EXPECT_TRUE(limiter.try_acquire("k"));
    const Decision late = limiter.acquire("k", Deadline::after(1s - 1ns));
    EXPECT_EQ(late.outcome, Outcome::limited);
    EXPECT_GT(late.retry_after, 0s);
    EXPECT_EQ(clock.now(), kStart);
    EXPECT_FALSE(limiter.acquire("k", Deadline::at(kStart - 1s)));
    EXPECT_FALSE(limiter.acquire("k", Deadline::after(Nanos::min())));
    EXPECT_TRUE(limiter.acquire("k", Deadline::after(1s)));
  }
}

// A stopped caller gives back what was taken for it.
TEST(KeyedLimiter, StopsWaitingWhenStopped) {
  for (const Limit& limit :
       {Limit{per_second(1)}, Limit::window(1, 1s), Limit::sliding_exact(1, 1s)}) {
    ManualClock clock{ManualClock::Sleepers::wait_for_others};
    KeyedLimiter limiter{limit, kFew, clock};
    EXPECT_TRUE(limiter.try_acquire("k"));
    Decision stopped;
    std::jthread waiting([&](std::stop_token stop) {
      stopped = limiter.acquire("k", Deadline::never(), 1, std::move(stop));
    });
    clock.await_sleepers(1);
    waiting.request_stop();
    waiting.join();
    EXPECT_EQ(stopped.outcome, Outcome::limited);
    EXPECT_EQ(stopped.retry_after, 1s);
    clock.advance(1s);
    EXPECT_TRUE(limiter.try_acquire("k"));
  }
}

TEST(KeyedLimiter, DoesNotStartToWaitWhenAlreadyStopped) {
  ManualClock clock;
  KeyedLimiter limiter{per_second(1), kFew, clock};
  std::stop_source source;
  source.request_stop();
  EXPECT_EQ(limiter.acquire("k", Deadline::never(), 1, source.get_token()).outcome,
            Outcome::limited);
  EXPECT_EQ(limiter.peek("k").remaining, 1);
}

TEST(KeyedLimiter, GivesEachWaitingCallerItsOwnTurn) {
  for (const Limit& limit : {Limit{per_second(1)}, Limit::sliding_exact(1, 1s)}) {
    constexpr int kWaiting = 3;
    ManualClock clock{ManualClock::Sleepers::wait_for_others};
    KeyedLimiter limiter{limit, kFew, clock};
    EXPECT_TRUE(limiter.try_acquire("k"));
    std::atomic<int> through{0};
    std::vector<std::jthread> callers;
    for (int i = 0; i < kWaiting; ++i) {
      callers.emplace_back([&] {
        EXPECT_TRUE(limiter.acquire("k", Deadline::never()));
        ++through;
      });
    }
    for (int i = 1; i <= kWaiting; ++i) {
      clock.await_sleepers(static_cast<std::size_t>(kWaiting + 1 - i));
      EXPECT_LT(through, i);
      clock.advance(1s);
    }
    callers.clear();
    EXPECT_EQ(through, kWaiting);
  }
}

// ---- Capacity of the table

// All max_keys keys are in use at the same time.
TEST(KeyedLimiter, HasRoomForMaxKeys) {
  for (const int keys : {1, 15, 100, 10'000, 100'000}) {
    ManualClock clock;
    KeyedLimiter limiter{per_hour(1), {.max_keys = static_cast<std::uint64_t>(keys)}, clock};
    for (int i = 0; i < keys; ++i) EXPECT_TRUE(limiter.try_acquire(numbered(i)));
    for (int i = 0; i < keys; ++i) EXPECT_FALSE(limiter.try_acquire(numbered(i)));
    const MemoryUse use = limiter.memory();
    EXPECT_EQ(use.live, static_cast<std::uint64_t>(keys));
    EXPECT_EQ(use.shared + use.denied + use.untracked, 0u);
  }
}

TEST(KeyedLimiter, UsesTheMemoryThatItReports) {
  ManualClock clock;
  for (const std::uint64_t keys : {10'000u, 100'000u, 1'000'000u}) {
    const KeyedLimiter limiter{per_hour(1), {.max_keys = keys}, clock};
    EXPECT_LE(limiter.memory().bytes, keys * 46 + 16'384);
    EXPECT_EQ(limiter.memory().record_bytes, 0u);
  }
}

// Keys at rest are evicted, which changes no decision.
TEST(KeyedLimiter, HasRoomForAnyNumberOfKeysOverTime) {
  ManualClock clock;
  KeyedLimiter limiter{per_second(10), {.max_keys = 1000}, clock};
  for (int i = 0; i < 50'000; ++i) {
    EXPECT_TRUE(limiter.try_acquire(numbered(i)));
    clock.advance(1ms);
  }
  const MemoryUse use = limiter.memory();
  EXPECT_GT(use.forgotten, 40'000u);
  EXPECT_EQ(use.shared + use.denied + use.untracked, 0u);
}

// A limiter for 100 keys after calls of 10,000.
struct Crowd {
  explicit Crowd(WhenFull when_full)
      : limiter(Limit::window(2, 1h), {.max_keys = 100, .when_full = when_full}, clock) {
    EXPECT_EQ(admits(limiter, "first", 5), 2);
    for (int i = 0; i < 10'000; ++i) passed += admits(limiter, numbered(i), 1);
  }
  ManualClock clock;
  KeyedLimiter limiter;
  int passed = 0;
};

TEST(KeyedLimiter, LetsNewKeysShareOneStateWhenItIsFull) {
  Crowd crowd{WhenFull::share};
  const MemoryUse use = crowd.limiter.memory();
  EXPECT_LT(crowd.passed, 1000);
  // The overflow state has admitted two calls. Slots found after that start as a copy of it: used
  // up.
  const std::uint64_t placed = 10'000u - use.shared;
  EXPECT_LE(static_cast<std::uint64_t>(crowd.passed - 2), placed);
  EXPECT_EQ(use.live, placed + 2) << "the first key and the overflow state";
  EXPECT_EQ(use.denied + use.untracked, 0u);
  EXPECT_EQ(admits(crowd.limiter, "first", 5), 0);
}

TEST(KeyedLimiter, DeniesNewKeysWhenItIsFull) {
  Crowd crowd{WhenFull::deny};
  const MemoryUse use = crowd.limiter.memory();
  EXPECT_LT(crowd.passed, 1000);
  EXPECT_EQ(use.denied, 10'000u - static_cast<std::uint64_t>(crowd.passed));
  EXPECT_EQ(use.shared + use.untracked, 0u);
  const Decision denied = crowd.limiter.try_acquire("one more");
  EXPECT_EQ(denied.outcome, Outcome::limited);
  EXPECT_GT(denied.retry_after, 0s);
  EXPECT_EQ(denied.limit, 2);
  EXPECT_EQ(admits(crowd.limiter, "first", 5), 0);
  crowd.clock.advance(1h + 1ms);
  EXPECT_TRUE(crowd.limiter.try_acquire("one more"));
}

TEST(KeyedLimiter, AdmitsNewKeysUncountedWhenItIsFull) {
  Crowd crowd{WhenFull::allow};
  const MemoryUse use = crowd.limiter.memory();
  EXPECT_EQ(crowd.passed, 10'000);
  EXPECT_GT(use.untracked, 9'000u);
  EXPECT_EQ(use.shared + use.denied, 0u);
  EXPECT_EQ(admits(crowd.limiter, "first", 5), 0);
}

// A call that was charged to the overflow state gives back to it; a call that was admitted
// uncounted has nothing to give back.
TEST(KeyedLimiter, GivesBackToTheStateThatWasCharged) {
  for (const WhenFull when_full : {WhenFull::share, WhenFull::allow}) {
    ManualClock clock;
    KeyedLimiter limiter{Limit::window(2, 1h), {.max_keys = 100, .when_full = when_full}, clock};
    int newcomer = 0;
    for (MemoryUse use; use.shared + use.untracked == 0; use = limiter.memory()) {
      ASSERT_TRUE(limiter.try_acquire(numbered(++newcomer)));
    }
    Reservation reserved = limiter.reserve(numbered(newcomer), 1);
    ASSERT_TRUE(reserved);
    const bool shares = when_full == WhenFull::share;
    EXPECT_EQ(static_cast<bool>(limiter.try_acquire(numbered(newcomer))), !shares);
    EXPECT_EQ(reserved.cancel(), shares);
    EXPECT_TRUE(limiter.try_acquire(numbered(newcomer)));
  }
}

// The key has its own slot by the time of the refund; that slot was not charged.
TEST(KeyedLimiter, GivesBackNothingToASlotThatWasNotCharged) {
  for (const WhenFull when_full : {WhenFull::share, WhenFull::allow}) {
    ManualClock clock;
    KeyedLimiter limiter{per_hour(10), {.max_keys = 100, .when_full = when_full}, clock};
    int newcomer = 0;
    for (MemoryUse use; use.shared + use.untracked == 0; use = limiter.memory()) {
      ASSERT_TRUE(limiter.try_acquire(numbered(++newcomer)));
    }
    Reservation reserved = limiter.reserve(numbered(newcomer), 9);
    ASSERT_TRUE(reserved);
    clock.advance(7min);  // all other keys are at rest
    const bool shares = when_full == WhenFull::share;
    // Its own slot starts as a copy of the overflow state: ten permits used, of which one drained.
    EXPECT_EQ(static_cast<bool>(limiter.try_acquire(numbered(newcomer), shares ? 2 : 11)), false);
    EXPECT_TRUE(limiter.try_acquire(numbered(newcomer), shares ? 1 : 10));
    (void)reserved.cancel();
    EXPECT_FALSE(limiter.try_acquire(numbered(newcomer)));
  }
}

// Only exact sliding windows need memory per admission.
TEST(KeyedLimiter, RemembersEveryAdmissionOfAnExactWindow) {
  ManualClock clock;
  KeyedLimiter limiter{Limit::sliding_exact(100, 1s), kFew, clock};
  EXPECT_GE(limiter.memory().record_bytes, kFew.record_bytes);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(static_cast<bool>(limiter.try_acquire("k")), i < 100 || i % 10 == 0) << i;
    clock.advance(i < 100 ? 10ms : 1ms);
  }
  EXPECT_GT(limiter.memory().record_used, 0u);
}

TEST(KeyedLimiter, WorksWithoutMemoryForAdmissions) {
  for (const WhenFull when_full : {WhenFull::share, WhenFull::deny, WhenFull::allow}) {
    ManualClock clock;
    KeyedLimiter limiter{Limit::sliding_exact(10, 1s),
                         {.max_keys = 10, .when_full = when_full, .record_bytes = 0},
                         clock};
    EXPECT_EQ(admits(limiter, "k", 20), when_full == WhenFull::allow ? 20 : 0);
  }
}

// ---- Errors

TEST(KeyedLimiter, RejectsInvalidOptions) {
  EXPECT_THROW(KeyedLimiter(per_second(1), {.max_keys = 0}), std::invalid_argument);
  EXPECT_THROW(KeyedLimiter(per_second(1), {.max_keys = UINT64_MAX}), std::invalid_argument);
  try {
    KeyedLimiter limiter{limit_of(*core::Concurrency::make(8, 30s)), kFew};
    ADD_FAILURE() << "a concurrency limit was accepted";
  } catch (const std::invalid_argument& mistake) {
    EXPECT_NE(std::string_view{mistake.what()}.find("use an Engine"), std::string_view::npos);
  }
}

// ---- Threads

TEST(ConcurrentKeyedLimiter, AdmitsExactlyTheBurstOfEachKey) {
  constexpr int kThreads = 4;
  constexpr int kKeys = 50;
  for (const Limit& limit : tens()) {
    ManualClock clock;
    KeyedLimiter limiter{limit, kFew, clock};
    std::vector<std::atomic<int>> admitted(kKeys);
    together(kThreads, [&](int thread) {
      std::minstd_rand random(static_cast<unsigned>(thread) + 1);
      for (int i = 0; i < kKeys * 30; ++i) {
        const auto key = random() % kKeys;
        admitted[key] += limiter.try_acquire(numbered(static_cast<int>(key))) ? 1 : 0;
      }
      for (std::size_t key = 0; key < kKeys; ++key) {
        admitted[key] += admits(limiter, numbered(static_cast<int>(key)), 10);
      }
    });
    for (const std::atomic<int>& count : admitted) EXPECT_EQ(count, 10);
  }
}

// Cancelling gives back exactly what was taken while other threads take.
TEST(ConcurrentKeyedLimiter, LosesAndMintsNoPermitsWhenSomeCancel) {
  for (const Limit& limit : tens()) {
    ManualClock clock;
    KeyedLimiter limiter{limit, kFew, clock};
    std::atomic<Permits> kept{0};
    together(4, [&](int thread) {
      std::minstd_rand random(static_cast<unsigned>(thread) + 1);
      for (int i = 0; i < 2000; ++i) {
        Reservation taken = limiter.reserve("k", 1, 0s);
        if (taken && (random() % 64 == 0 || !taken.cancel())) ++kept;
      }
    });
    EXPECT_LE(kept, 10);
    EXPECT_EQ(limiter.peek("k").remaining, 10 - kept);
  }
}

}  // namespace
}  // namespace weir
