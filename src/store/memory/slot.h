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

// The time at which a slot comes to rest (its expiry), in units of 2^15 ns since the Unix epoch,
// rounded up. 48 bits reach beyond the latest instant; the maximum never comes. Zero: the slot is
// empty.
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

// The entry of one key under one limit: owner, rest time and state.
//
// A take is lock-free. It reads the owner, the state, and the owner again; extends the rest time to
// that after the take; then swaps the state. The rest time is never lowered while a slot has an
// owner, and a slot changes its owner only when that time has come. So every state of the old owner
// was at rest before the first state of the new owner, and their instants differ. A delayed swap by
// a thread that has missed the change of owner therefore finds another state and fails. (An
// all-zero state has no instant: it is only changed under its lock.)
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

  // Ensures that the slot does not change its owner before `rest`. Returns false if it has changed
  // since `key` was found in it. This compares only the 16 bits of the fingerprint beside the rest
  // time. If those of a new owner are equal, its slot is kept longer than necessary, which is
  // harmless, and the caller's swap of the state fails.
  bool extend_expiry(const Fingerprint& key, RestTime rest) noexcept {
    std::uint64_t low = low_.load(std::memory_order_acquire);
    for (;;) {
      if ((low & Fingerprint::kLowBits) != key.low || (low & RestTime::kMask) == 0) return false;
      if ((low & RestTime::kMask) >= rest.units()) return true;
      if (low_.compare_exchange_weak(low, key.low | rest.units())) return true;
    }
  }

  // The next two need the locks of the slot's row and of its state.

  // Empties the slot. Returns false if another thread has just extended its rest time.
  bool vacate(Instant now) noexcept {
    std::uint64_t low = low_.load(std::memory_order_acquire);
    if (!RestTime{low & RestTime::kMask}.has_come(now)) return false;
    return low_.compare_exchange_strong(low, 0);
  }
  // The last store publishes the slot.
  void assign(const Fingerprint& key, RestTime rest) noexcept {
    high_.store(key.high, std::memory_order_release);
    low_.store(key.low | std::max(rest, RestTime{1}).units(), std::memory_order_release);
  }

 private:
  AtomicState state_;
  std::atomic<std::uint64_t> high_{0};
  std::atomic<std::uint64_t> low_{0};
};

static_assert(sizeof(Slot) == 32 && std::is_standard_layout_v<Slot>);

// A hash table bucket: fifteen slots and a summary of them, in eight cache lines. A key may lie in
// any slot of two rows. A tag of one byte per slot, taken from the fingerprint, tells which slots
// to compare. Most keys lie in their preferred cache line and are found there at once.
class alignas(64) Row {
 public:
  static constexpr unsigned kSlots = 15;

  std::array<Slot, kSlots>& slots() { return slots_; }

  // The preferred slot of a key. The other slot of its cache line is as good.
  const Slot& preferred(const Fingerprint& key) const noexcept {
    return slots_[half_line_of(key) - 1];
  }
  Slot* find_preferred(const Fingerprint& key) noexcept {
    const unsigned half_line = half_line_of(key);
    if (slots_[half_line - 1].belongs_to(key)) return &slots_[half_line - 1];
    const unsigned other = half_line ^ 1;
    return other > 0 && slots_[other - 1].belongs_to(key) ? &slots_[other - 1] : nullptr;
  }
  // Finds a key in any slot of the row.
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

  // The earliest rest time of all slots.
  RestTime soonest_rest() const noexcept;

  void lock() noexcept;
  void unlock() noexcept {
    lock_.store(lock_.load(std::memory_order_relaxed) & ~kLocked, std::memory_order_release);
  }

  // True if there is no slot for a new key. May be out of date unless the row is locked.
  bool is_full(Instant now) const {
    const std::uint64_t summary = summary_.load(std::memory_order_relaxed);
    return (summary & 0xff) == kSlots && !RestTime{summary >> 8}.has_come(now);
  }

  // ---- The following require the row lock

  // The number of live slots as of the last recount; an upper bound, unless slots that were at rest
  // then are live again.
  unsigned live() const {
    return static_cast<unsigned>(summary_.load(std::memory_order_relaxed) & 0xff);
  }
  // The time before which no slot is free; valid only if all slots are live.
  RestTime earliest() const { return RestTime{summary_.load(std::memory_order_relaxed) >> 8}; }
  void recount(Instant now, const SlowerLimits* slower = nullptr);
  static bool is_at_rest(Slot& slot, Instant now, const SlowerLimits* slower);

  // Assigns a slot to `key`, its state locked and all zero. Returns null if none is free. If a key
  // was evicted for it, `evicted` is filled in.
  enum class Where { preferred, anywhere };
  struct Evicted {
    Fingerprint owner{};
    core::State state{};
  };
  Slot* place(const Fingerprint& key, Where where, Instant now, Evicted& evicted,
              const SlowerLimits* slower = nullptr);
  // Evicts the owner of one slot if it is at rest.
  bool evict(Slot& slot, Instant now, Evicted& evicted, const SlowerLimits* slower = nullptr);

  // The time of the last eviction. A key that is not in this row may have been evicted then, so no
  // decision for it may be made at an earlier time.
  Instant last_eviction() const {
    return weir::instant(static_cast<std::int64_t>(lock_.load(std::memory_order_relaxed) >> 1));
  }

  // Repairs the row after a restart: locks, tags, summary. `latest` is the latest plausible time.
  // Drops slots for which `belongs` returns false, and returns their number.
  template <typename Belongs>
  unsigned restore(Instant latest, Belongs belongs);

 private:
  static constexpr std::uint64_t kEachByte = 0x0101'0101'0101'0101;
  static constexpr std::uint64_t kLocked = 1;

  // The index of the half cache line of a key's preferred slot. Half 0 of the row is the summary.
  static unsigned half_line_of(const Fingerprint& key) {
    return 1 + static_cast<unsigned>((key.high >> 8 & 0xffff) * kSlots >> 16);
  }
  static std::uint64_t tag_of(const Fingerprint& key) {
    return std::max<std::uint64_t>(key.high & 0xff, 1);  // 0: an empty slot
  }
  // Sets the high bit of each zero byte, and perhaps of some bytes above it: false positives are
  // filtered by the full comparison.
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
  unsigned eviction_candidate(unsigned half_line) const noexcept;
  bool lock_and_vacate(Slot& slot, Instant now, Evicted& evicted, const SlowerLimits* slower);

  std::array<std::atomic<std::uint64_t>, 2> tags_{};
  std::atomic<std::uint64_t> summary_{0};  // earliest rest time, live slots; written under the lock
  std::atomic<std::uint64_t> lock_{0};     // bit 0: the lock; above: time of the last eviction
  std::array<Slot, kSlots> slots_{};
};

static_assert(sizeof(Row) == 512 && std::is_standard_layout_v<Row>);

template <typename Belongs>
unsigned Row::restore(Instant latest, Belongs belongs) {
  unsigned dropped = 0;
  lock_.store(core::word_of(std::min(last_eviction(), latest)) << 1, std::memory_order_release);
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
