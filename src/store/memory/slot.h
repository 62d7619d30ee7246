#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "base/saturating.h"
#include "base/time.h"
#include "store/memory/atomic_state.h"
#include "store/memory/fingerprint.h"
#include "store/memory/slower_limits.h"

namespace weir::store {

// When a slot comes to rest, in units of 2^15 ns since the Unix epoch, rounded up: 48 bits reach
// beyond the latest instant, so that what rests later never does. Zero: nobody's.
class RestTime {
 public:
  static constexpr int kUnitBits = 15;
  static constexpr std::uint64_t kMask = (std::uint64_t{1} << 48) - 1;

  RestTime() = default;
  explicit RestTime(std::uint64_t units) : units_(units) {}
  static RestTime not_before(Instant t) {
    const auto nanos = static_cast<std::uint64_t>(std::max<std::int64_t>(ns(t), 1));
    const std::uint64_t unit = std::uint64_t{1} << kUnitBits;
    return RestTime{std::min((nanos + unit - 1) >> kUnitBits, kMask)};
  }

  std::uint64_t units() const { return units_; }
  bool has_come(Instant now) const { return units_ << kUnitBits <= core::word_of(in_range(now)); }
  Instant instant() const {
    return weir::instant(static_cast<std::int64_t>(std::min(units_ << kUnitBits, kFurthest)));
  }
  friend auto operator<=>(const RestTime&, const RestTime&) = default;

 private:
  static constexpr auto kFurthest = static_cast<std::uint64_t>(ns(kLatest));
  std::uint64_t units_ = 0;
};

// What is remembered of one key under one limit: whose it is, when it will be at rest, its state.
//
// Takes need no lock. A taker reads whose slot it is, the state, and again whose slot it is; it
// raises the time of rest to what it will be after the take, and then swaps the state. The time of
// rest is never lowered while a slot is somebody's, and a slot changes hands only when that time
// has come. So every state the slot had under its old owner was at rest before every state it gets
// under its new one, all states name an instant that tells them apart, and a swap by a taker who
// slept through the change finds another state and fails. (All zero names no instant: such a state
// is only left under its lock.)
class Slot {
 public:
  AtomicState& state() noexcept { return state_; }

  bool belongs_to(const Fingerprint& key) const noexcept {
    const std::uint64_t low = low_.load(std::memory_order_acquire);
    return (low & Fingerprint::kLowBits) == key.low && (low & RestTime::kMask) != 0 &&
           high_.load(std::memory_order_acquire) == key.high;
  }
  bool is_empty() const noexcept { return low_.load(std::memory_order_acquire) == 0; }
  Fingerprint owner() const noexcept {
    return {.high = high_.load(std::memory_order_acquire),
            .low = low_.load(std::memory_order_acquire) & Fingerprint::kLowBits};
  }
  RestTime rest() const noexcept {
    return RestTime{low_.load(std::memory_order_acquire) & RestTime::kMask};
  }

  // Makes sure that the slot does not change hands before `rest`. False if it already has.
  // (It was the key's when it was found. If it has changed hands since, the few bits that lie
  // beside the time of rest nearly always tell; if not, its new owner stays longer than it must,
  // which forgives nobody, and the swap of the state that follows finds another one and fails.)
  bool hold_until(const Fingerprint& key, RestTime rest) noexcept {
    std::uint64_t low = low_.load(std::memory_order_acquire);
    for (;;) {
      if ((low & Fingerprint::kLowBits) != key.low || (low & RestTime::kMask) == 0) return false;
      if ((low & RestTime::kMask) >= rest.units()) return true;
      if (low_.compare_exchange_weak(low, key.low | rest.units())) return true;
    }
  }

  // The next two are for whoever has locked the slot's row and its state.

  // Takes it from its owner, unless somebody has just made sure that it stays.
  bool vacate(Instant now) noexcept {
    std::uint64_t low = low_.load(std::memory_order_acquire);
    if (!RestTime{low & RestTime::kMask}.has_come(now)) return false;
    return low_.compare_exchange_strong(low, 0);
  }
  // Nobody can find it before the last store.
  void give_to(const Fingerprint& key, RestTime rest) noexcept {
    high_.store(key.high, std::memory_order_release);
    low_.store(key.low | std::max(rest, RestTime{1}).units(), std::memory_order_release);
  }

 private:
  AtomicState state_;
  std::atomic<std::uint64_t> high_{0};
  std::atomic<std::uint64_t> low_{0};
};

static_assert(sizeof(Slot) == 32 && std::is_standard_layout_v<Slot>);

// Fifteen slots and a summary of them, in eight cache lines. A key may lie in two rows, and in any
// slot of them; a byte of its fingerprint, its tag, tells which slots are worth a look. Most keys
// lie in the cache line they prefer, and are found there at once.
class alignas(64) Row {
 public:
  static constexpr unsigned kSlots = 15;

  std::array<Slot, kSlots>& slots() { return slots_; }

  // Where a key would like to be: there, or in the other half of that cache line.
  const Slot& preferred(const Fingerprint& key) const noexcept {
    return slots_[half_line_of(key) - 1];
  }
  Slot* find_preferred(const Fingerprint& key) noexcept {
    const unsigned half_line = half_line_of(key);
    if (slots_[half_line - 1].belongs_to(key)) return &slots_[half_line - 1];
    const unsigned other = half_line ^ 1;
    return other > 0 && slots_[other - 1].belongs_to(key) ? &slots_[other - 1] : nullptr;
  }
  // Anywhere in the row.
  Slot* find(const Fingerprint& key) noexcept {
    const std::uint64_t pattern = kEachByte * tag_of(key);
    for (unsigned half = 0; half < tags_.size(); ++half) {
      std::uint64_t matches = zero_bytes(tags_[half].load(std::memory_order_acquire) ^ pattern);
      for (; matches != 0; matches &= matches - 1) {
        const unsigned place = half * 8 + static_cast<unsigned>(__builtin_ctzll(matches)) / 8;
        if (place < kSlots && slots_[place].belongs_to(key)) return &slots_[place];
      }
    }
    return nullptr;
  }

  // When the first of the slots will be at rest, as things stand.
  RestTime soonest_rest() const noexcept;

  void lock() noexcept;
  void unlock() noexcept {
    lock_.store(lock_.load(std::memory_order_relaxed) & ~kLocked, std::memory_order_release);
  }

  // Whether there is no room for a newcomer. Without the lock this was so a moment ago.
  bool is_full(Instant now) const {
    const std::uint64_t summary = summary_.load(std::memory_order_relaxed);
    return (summary & 0xff) == kSlots && !RestTime{summary >> 8}.has_come(now);
  }

  // ---- With the row locked

  // At most so many slots are live, if those that were at rest at the last survey still are.
  unsigned live() const {
    return static_cast<unsigned>(summary_.load(std::memory_order_relaxed) & 0xff);
  }
  // No slot can be had before that time; only when all are live.
  RestTime earliest() const { return RestTime{summary_.load(std::memory_order_relaxed) >> 8}; }
  void survey(Instant now, const SlowerLimits* slower = nullptr);
  static bool is_at_rest(Slot& slot, Instant now, const SlowerLimits* slower);

  // A slot for `key`, its state locked and all zero, or none. `vacated` tells who had to leave.
  enum class Where { preferred, anywhere };
  struct Vacated {
    Fingerprint owner{};
    core::State state{};
  };
  Slot* settle(const Fingerprint& key, Where where, Instant now, Vacated& vacated,
               const SlowerLimits* slower = nullptr);
  // Makes the owner of one slot leave, if it is at rest.
  bool evict(Slot& slot, Instant now, Vacated& vacated, const SlowerLimits* slower = nullptr);

  // Since when keys that were here may have been forgotten: for a key that is not here, time before
  // that is over.
  Instant forgotten() const {
    return weir::instant(static_cast<std::int64_t>(lock_.load(std::memory_order_relaxed) >> 1));
  }

  // Puts everything right that a killed process may have left behind. No clock has come further
  // than `latest`. Returns how many slots were dropped because `belongs` does not know them.
  template <typename Belongs>
  unsigned restore(Instant latest, Belongs belongs);

 private:
  static constexpr std::uint64_t kEachByte = 0x0101'0101'0101'0101;
  static constexpr std::uint64_t kLocked = 1;

  // The row in halves of cache lines: the first is the summary, the others are the slots.
  static unsigned half_line_of(const Fingerprint& key) {
    return 1 + static_cast<unsigned>((key.high >> 8 & 0xffff) * kSlots >> 16);
  }
  static std::uint64_t tag_of(const Fingerprint& key) {
    return std::max<std::uint64_t>(key.high & 0xff, 1);  // 0: an empty slot
  }
  // The high bit of each zero byte, and of some bytes above it: good enough to look there.
  static std::uint64_t zero_bytes(std::uint64_t x) {
    return (x - kEachByte) & ~x & (kEachByte << 7);
  }
  void set_tag(unsigned place, std::uint64_t tag) {
    const unsigned shift = place % 8 * 8;
    const std::uint64_t others =
        tags_[place / 8].load(std::memory_order_relaxed) & ~(std::uint64_t{0xff} << shift);
    tags_[place / 8].store(others | tag << shift, std::memory_order_release);
  }
  void set_summary(unsigned live, RestTime earliest) {
    summary_.store(earliest.units() << 8 | live, std::memory_order_relaxed);
  }
  unsigned first_to_go(unsigned half_line) const noexcept;
  bool clear_out(Slot& slot, Instant now, Vacated& vacated, const SlowerLimits* slower);

  std::array<std::atomic<std::uint64_t>, 2> tags_{};
  std::atomic<std::uint64_t> summary_{0};  // the earliest rest, live slots; set under the lock
  std::atomic<std::uint64_t> lock_{0};     // the lock, and under it: when a slot was last vacated
  std::array<Slot, kSlots> slots_{};
};

static_assert(sizeof(Row) == 512 && std::is_standard_layout_v<Row>);

template <typename Belongs>
unsigned Row::restore(Instant latest, Belongs belongs) {
  unsigned dropped = 0;
  lock_.store(core::word_of(std::min(forgotten(), latest)) << 1, std::memory_order_release);
  for (auto& half : tags_) half.store(0, std::memory_order_relaxed);
  summary_.store(0, std::memory_order_relaxed);
  for (unsigned place = 0; place < kSlots; ++place) {
    Slot& slot = slots_[place];
    slot.state().store(AtomicState::unlocked(slot.state().load()));
    const bool known = !slot.is_empty() && slot.rest() != RestTime{} && belongs(slot);
    if (known) {
      set_tag(place, tag_of(slot.owner()));
    } else {
      dropped += slot.is_empty() ? 0 : 1;
      slot.~Slot();
      new (&slot) Slot();
    }
  }
  return dropped;
}

}  // namespace weir::store
