#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "base/int128.h"
#include "core/state.h"

namespace weir::store {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// A state that is shared between threads: 16 bytes, changed by one compare-and-swap. The top bit of
// the first word, which no algorithm uses, is a lock for operations that change several states.
//
// Thread-safe. Standard layout, so that it may lie in a memory-mapped file.
class alignas(16) AtomicState {
 public:
  AtomicState() = default;
  explicit AtomicState(const core::State& state) : when_(state.when), what_(state.what) {}
  AtomicState(const AtomicState&) = delete;
  AtomicState& operator=(const AtomicState&) = delete;

  // Reads the words one by one: a wide load after two narrow stores would stall (store-to-load
  // forwarding fails). If the first word is unchanged, the words belong together, except for ABA:
  // it may have changed and changed back. Then the second word is from a state in between. No
  // charge can depend on it, because the swap compares both words.
  core::State load() const noexcept {
    for (;;) {
      const std::uint64_t when = when_.load(std::memory_order_acquire);
      const std::uint64_t what = what_.load(std::memory_order_acquire);
      if (when_.load(std::memory_order_relaxed) == when) [[likely]] {
        return {.when = when, .what = what};
      }
    }
  }

  // cmpxchg16b on x86-64. (std::atomic of 16 bytes would be a library call.)
  bool compare_exchange(const core::State& expected, const core::State& desired) noexcept {
    const Word old = pack(expected);
    return __sync_val_compare_and_swap(reinterpret_cast<Word*>(this), old, pack(desired)) == old;
  }

  // Compares and swaps the first word only, at half the cost. For limits whose steps neither read
  // nor change the second word.
  bool compare_exchange_when(std::uint64_t expected, std::uint64_t desired) noexcept {
#if defined(__SANITIZE_THREAD__)
    // ThreadSanitizer emulates cmpxchg16b with a lock of its own, which narrow swaps do not take.
    const std::uint64_t what = what_.load(std::memory_order_acquire);
    return compare_exchange({expected, what}, {desired, what});
#else
    return when_.compare_exchange_strong(expected, desired, std::memory_order_acq_rel,
                                         std::memory_order_relaxed);
#endif
  }

  static bool is_locked(const core::State& state) noexcept { return (state.when & kLock) != 0; }
  static core::State locked(core::State state) noexcept { return {state.when | kLock, state.what}; }
  static core::State unlocked(core::State state) noexcept {
    return {state.when & ~kLock, state.what};
  }

  // Takes the lock if the state is `expected` and not locked.
  bool try_lock(const core::State& expected) noexcept {
    return compare_exchange(expected, locked(expected));
  }
  // For the owner of the lock. `found` is the state that was locked. The change and the unlock are
  // one swap, so that a killed process leaves either the old state or the new one.
  void unlock(const core::State& found, const core::State& next) noexcept {
    if (next == found) {
      when_.store(found.when, std::memory_order_release);
    } else {
      compare_exchange(locked(found), next);
    }
  }

  // For states that no other thread can reach.
  void store(const core::State& state) noexcept {
    what_.store(state.what, std::memory_order_release);
    when_.store(state.when, std::memory_order_release);
  }

 private:
  static constexpr std::uint64_t kLock = std::uint64_t{1} << 63;

  using Word [[gnu::may_alias]] = UInt128;
  static Word pack(const core::State& state) {
    return static_cast<Word>(state.what) << 64 | state.when;
  }

  std::atomic<std::uint64_t> when_{0};
  std::atomic<std::uint64_t> what_{0};
};

static_assert(sizeof(AtomicState) == 16 && std::is_standard_layout_v<AtomicState>);

// Backoff for spin loops: pauses the processor at first, then yields it to other threads, one of
// which may hold the lock.
class SpinWait {
 public:
  void wait() noexcept;

 private:
  int spins_ = 0;
};

}  // namespace weir::store
