#pragma once

#include "base/fixed_vector.h"
#include "store/memory/table.h"

namespace weir::store {

// A slot whose state is locked for a decision, with copies of its data to decide on.
struct LockedEntry {
  Slot* slot = nullptr;  // null: the key is not in the table, and will not be inserted
  Fingerprint key{};     // of the slot: the item's own key, or the overflow key
  core::State found{};   // the slot's state when it was locked, without the lock bit
  core::State state{};   // the copy to change
  RestTime free_at{};    // if there is no room for a record: when there may be

  Record* record = nullptr;
  core::AdmissionLog::Head head{};  // copy of the record's head, to change
  Arena::Handle outgrown = 0;       // the block that the record has been moved out of
  std::size_t outgrown_bytes = 0;
  core::LogEntry spare_entry{};  // used when there is no record
  core::Holder spare_holder{};   // the same

  core::Memory memory_for(const core::Limit& limit);
};

// Salt for holder ids in the overflow record, which the holders of several keys share.
core::HolderId id_of(const Fingerprint& key);

// Marks a receipt as charged to the overflow state. The mark is the lock bit of its `before` state,
// which must be cleared before the receipt is passed to an algorithm.
inline void mark_overflow(core::Receipt& receipt) {
  receipt.before = AtomicState::locked(receipt.before);
}
inline bool unmark_overflow(core::Receipt& receipt) {
  const bool marked = AtomicState::is_locked(receipt.before);
  receipt.before = AtomicState::unlocked(receipt.before);
  return marked;
}

// The locked states of a decision over several items, from the constructor until `commit`.
//
// Deadlock freedom: states are locked in the order of their keys, overflow states last, so a thread
// that waits for a lock holds only smaller ones. Rows are locked after states and only briefly, and
// no thread waits for a state while it holds a row lock. (A thread that inserts a key waits for the
// overflow state while it holds the key's state; the owner of an overflow state waits for no key.)
//
// A key whose calls were charged to the overflow state must not start anew when it gets a slot, so
// its first state is a copy of the overflow state. Race: thread A finds no slot for a key; thread B
// inserts the key and copies the overflow state before A is charged to it. Therefore A looks for
// the key again after it has locked the overflow state, and starts over if it has changed.
class Table::LockedPlan {
 public:
  LockedPlan(Table& table, std::span<const Item> items, IfMissing if_missing, Instant now,
             const core::HolderId& holder = {}, std::span<const Target> targets = {});
  ~LockedPlan();
  LockedPlan(const LockedPlan&) = delete;
  LockedPlan& operator=(const LockedPlan&) = delete;

  // The position of the first item that is refused because the table is full, if there is one, and
  // the verdict over all items in that case.
  std::optional<std::size_t> refused() const { return refused_; }
  core::Verdict refusal(const core::HolderId& holder, std::span<core::Decision> each) const;

  // The time of the decision: the given time, or later if a new key may have been evicted since.
  Instant now() const { return now_; }
  std::span<const core::Charge> charges() const { return charges_; }

  // Marks receipts that were charged to an overflow state, and clears those of items that were not
  // charged. Call it before `commit`.
  void mark_receipts(std::span<core::Receipt> receipts) const;
  // Writes the copies back and releases the locks.
  void commit();
  // Resets the states and records of all items and releases the locks.
  void clear();

 private:
  using Positions = FixedVector<std::size_t, core::kMaxLimits>;

  // True if the item has locked the overflow slot instead of its own.
  bool uses_overflow(std::size_t position) const {
    const LockedEntry& entry = entries_[position];
    return entry.slot != nullptr && entry.key != items_[position].key;
  }
  bool lock_all();
  void lock_entry(std::size_t position, Positions& without_room);
  bool inherit_overflow(std::size_t position, IfMissing if_missing);
  bool place_new_key(std::size_t position);
  bool lock_overflow_for(std::size_t position);
  void lock_charged_overflow(std::size_t position);
  bool overflow_is_locked(const Item& item) const;
  Target target_of(std::size_t position) const {
    return targets_.empty() ? Target::normal : targets_[position];
  }
  void refuse(std::size_t position);
  void count(std::atomic<std::uint64_t>& newcomers) const;
  void release(LockedEntry& entry);

  Table& table_;
  const std::span<const Item> items_;
  const IfMissing if_missing_;
  const core::HolderId& holder_;
  const std::span<const Target> targets_;
  Instant now_;
  std::optional<std::size_t> refused_;
  FixedVector<LockedEntry, core::kMaxLimits> entries_;
  FixedVector<core::Charge, core::kMaxLimits> charges_;
};

}  // namespace weir::store
