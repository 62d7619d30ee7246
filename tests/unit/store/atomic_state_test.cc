// AtomicState: 16-byte compare-and-swap and the lock bit.

#include "store/memory/atomic_state.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "store.h"

namespace weir::store {
namespace {

using core::State;

TEST(AtomicState, SwapsOnlyTheExpectedState) {
  AtomicState state(State{1, 2});
  EXPECT_FALSE(state.compare_exchange({1, 3}, {5, 6}));
  EXPECT_FALSE(state.compare_exchange({2, 2}, {5, 6}));
  EXPECT_EQ(state.load(), (State{1, 2}));
  EXPECT_TRUE(state.compare_exchange({1, 2}, {5, 6}));
  EXPECT_EQ(state.load(), (State{5, 6}));
}

TEST(AtomicState, SwapsTheFirstWordAlone) {
  AtomicState state(State{1, 2});
  EXPECT_FALSE(state.compare_exchange_when(7, 8));
  EXPECT_TRUE(state.compare_exchange_when(1, 8));
  EXPECT_EQ(state.load(), (State{8, 2}));
}

TEST(AtomicState, LocksOnlyTheExpectedUnlockedState) {
  AtomicState state(State{1, 2});
  EXPECT_FALSE(state.try_lock({1, 1}));
  EXPECT_TRUE(state.try_lock({1, 2}));
  EXPECT_TRUE(AtomicState::is_locked(state.load()));
  EXPECT_FALSE(state.try_lock({1, 2}));
  EXPECT_EQ(AtomicState::unlocked(state.load()), (State{1, 2}));
}

// The unlock is part of the swap, and no other swap succeeds in between.
TEST(AtomicState, UnlocksToTheOldStateOrANewOne) {
  AtomicState state(State{1, 2});
  ASSERT_TRUE(state.try_lock({1, 2}));
  EXPECT_FALSE(state.compare_exchange({1, 2}, {9, 9}));
  state.unlock({1, 2}, {1, 2});
  EXPECT_EQ(state.load(), (State{1, 2}));
  ASSERT_TRUE(state.try_lock({1, 2}));
  state.unlock({1, 2}, {3, 4});
  EXPECT_EQ(state.load(), (State{3, 4}));
}

TEST(AtomicState, LocksAnAllZeroStateAndTheLargestInstant) {
  for (const State& ends : {State{0, 0}, State{~std::uint64_t{0} >> 1, ~std::uint64_t{0}}}) {
    AtomicState state(ends);
    ASSERT_TRUE(state.try_lock(ends));
    EXPECT_EQ(AtomicState::unlocked(state.load()), ends);
    state.unlock(ends, {});
    EXPECT_TRUE(state.load().never_seen());
  }
}

// Some threads change the state by swaps, others under the lock.
TEST(AtomicState, KeepsItsWordsTogetherUnderContention) {
  constexpr int threads = 4;
  const int rounds = scaled(100'000);
  AtomicState state(State{1, 1});
  int guarded = 0;  // protected by the lock
  int locked_rounds = 0;
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      SpinWait spin_wait;
      for (int i = 0; i < rounds;) {
        const State found = state.load();
        if (AtomicState::is_locked(found)) {
          spin_wait.wait();
          continue;
        }
        if (t % 2 == 0) {
          i += state.compare_exchange(found, {found.when + 1, found.what + 1}) ? 1 : 0;
        } else if (state.try_lock(found)) {
          ASSERT_EQ(found.when, found.what);
          ++guarded;
          const bool changes = i % 3 != 0;
          state.unlock(found, changes ? State{found.when + 1, found.what + 1} : found);
          ++i;
        }
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (int i = 0; i < rounds; ++i) locked_rounds += i % 3 != 0 ? 1 : 0;
  const auto expected = static_cast<std::uint64_t>(1 + 2 * rounds + 2 * locked_rounds);
  EXPECT_EQ(state.load(), (State{expected, expected}));
  EXPECT_EQ(guarded, 2 * rounds);
}

}  // namespace
}  // namespace weir::store
