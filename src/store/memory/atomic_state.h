#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "base/int128.h"
#include "core/state.h"

namespace weir::store {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// A state that threads share: 16 bytes that change by one compare-and-swap. The top bit of the
// first word, which no algorithm uses, is a lock for whoever has to change several states at once.
//
// Thread-safe. A plain object of two words, so that it may lie in a memory-mapped file.
class alignas(16) AtomicState {
 public:
  AtomicState() = default;
  explicit AtomicState(const core::State& state) : when_(state.when), what_(state.what) {}
  AtomicState(const AtomicState&) = delete;
  AtomicState& operator=(const AtomicState&) = delete;

  // The words are read one by one: one wide load after two narrow stores would stall. If the first
  // has not changed meanwhile they belong together, but for one case: it changed and changed back.
  // Then the second word is of a state that held in between; nothing is ever charged on the
  // strength of it, since a swap compares both words.
  core::State load() const noexcept {
    for (;;) {
      const std::uint64_t when = when_.load(std::memory_order_acquire);
      const std::uint64_t what = what_.load(std::memory_order_acquire);
      if (when_.load(std::memory_order_relaxed) == when) [[likely]] {
        return {.when = when, .what = what};
      }
    }
  }

  // The processor's cmpxchg16b. (The std::atomic of 16 bytes would call a library for it.)
  bool compare_exchange(const core::State& expected, const core::State& desired) noexcept {
    const Word old = pack(expected);
    return __sync_val_compare_and_swap(reinterpret_cast<Word*>(this), old, pack(desired)) == old;
  }

  // Swaps the first word alone, whatever the second has become meanwhile: half the price. For a
  // limit whose steps neither read nor change the second word.
  bool compare_exchange_when(std::uint64_t expected, std::uint64_t desired) noexcept {
#if defined(__SANITIZE_THREAD__)
    // The thread sanitizer plays cmpxchg16b by a lock of its own, which no narrow swap respects.
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

  // Takes the lock if the state is `expected` and nobody has it.
  bool try_lock(const core::State& expected) noexcept {
    return compare_exchange(expected, locked(expected));
  }
  // For the owner of the lock, who found `found` under it. One swap, so that a process that is
  // killed leaves either the old state or the new one.
  void unlock(const core::State& found, const core::State& next) noexcept {
    if (next == found) {
      when_.store(found.when, std::memory_order_release);
    } else {
      compare_exchange(locked(found), next);
    }
  }

  // For places that nobody else can reach.
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

// A moment of patience while another thread finishes: on the processor for a while, then by leaving
// it to others, among which the one waited for may be.
class Patience {
 public:
  void wait() noexcept;

 private:
  int spins_ = 0;
};

}  // namespace weir::store
