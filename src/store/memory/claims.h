#pragma once

#include "base/fixed_vector.h"
#include "store/memory/table.h"

namespace weir::store {

// A slot whose state is locked for a decision, and copies to decide on.
struct Claimed {
  Slot* slot = nullptr;  // none: the key is not remembered, or will not be
  Fingerprint key{};     // whose: the item's own, or that of those who share
  core::State found{};   // the slot's state, without the lock
  core::State state{};   // the same, to be changed
  RestTime free_at{};    // when there is no room for a record: when there may be

  Record* record = nullptr;
  core::Log::Head head{};      // of the record, to be changed
  Arena::Handle outgrown = 0;  // a block the record has left
  std::size_t outgrown_bytes = 0;
  core::LogEntry spare_entry{};  // where there is no record
  core::Holder spare_seat{};

  core::Memory memory_for(const core::Limit& limit);
};

// What tells the holders of a key from those of others where they sit together.
core::HolderId id_of(const Fingerprint& key);

// A receipt for what was charged to the state that newcomers share says so in a bit no algorithm
// uses, the one that locks a state: in the hands of one it must not be set.
inline void mark_shared(core::Receipt& receipt) {
  receipt.before = AtomicState::locked(receipt.before);
}
inline bool unmark_shared(core::Receipt& receipt) {
  const bool marked = AtomicState::is_locked(receipt.before);
  receipt.before = AtomicState::unlocked(receipt.before);
  return marked;
}

// All that a decision over several items needs, locked until it is committed.
//
// States are locked in the order of their keys, those that newcomers share last: whoever waits
// for a lock holds only lesser ones, so nobody waits in a circle. Rows are locked for moments only,
// after states, and nobody waits for a state while having a row. (A key that starts from the
// overflow state waits for that one while it holds its own: whoever has it waits for no key.)
//
// A key whose calls were charged to the overflow state must not begin afresh when it gets a slot.
// Its first state is a copy of the overflow state. Two threads with the same key could miss each
// other: one finds no slot, and the other gets one and copies before the first is charged. So the
// first looks for the key again after it has locked the overflow state, and starts over if another
// thread has been there.
class Table::Claims {
 public:
  Claims(Table& table, std::span<const Item> items, Absent absent, Instant now,
         const core::HolderId& holder = {}, std::span<const Place> places = {});
  ~Claims();
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;

  // One that is refused for want of room, if there is one: its position, and the answer to all.
  std::optional<std::size_t> refused() const { return refused_; }
  core::Verdict refusal(const core::HolderId& holder, std::span<core::Decision> each) const;

  // The decision's time: that given, unless a newcomer's key may have been forgotten since.
  Instant now() const { return now_; }
  std::span<const core::Charge> charges() const { return charges_; }

  // Makes receipts say what was charged, before it is written back.
  void sign(std::span<core::Receipt> receipts) const;
  // Writes back what the decision has made of the copies.
  void commit();
  // Forgets everything.
  void clear();

 private:
  using Positions = FixedVector<std::size_t, core::kMaxLimits>;

  // Whether it is those that newcomers share whose slot it has.
  bool shares(std::size_t position) const {
    const Claimed& claimed = claimed_[position];
    return claimed.slot != nullptr && claimed.key != items_[position].key;
  }
  bool claim_all();
  void claim(std::size_t position, Positions& without_room);
  bool starts_rightly(std::size_t position, Absent absent);
  bool settle_newcomer(std::size_t position);
  bool shares_overflow(std::size_t position);
  void claim_shared(std::size_t position);
  bool another_shares(const Item& item) const;
  Place place_of(std::size_t position) const {
    return places_.empty() ? Place::usual : places_[position];
  }
  void refuse(std::size_t position);
  void count(std::atomic<std::uint64_t>& newcomers) const;
  void release(Claimed& claimed);

  Table& table_;
  const std::span<const Item> items_;
  const Absent absent_;
  const core::HolderId& holder_;
  const std::span<const Place> places_;
  Instant now_;
  std::optional<std::size_t> refused_;
  FixedVector<Claimed, core::kMaxLimits> claimed_;
  FixedVector<core::Charge, core::kMaxLimits> charges_;
};

}  // namespace weir::store
