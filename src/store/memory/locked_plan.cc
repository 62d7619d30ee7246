#include "store/memory/locked_plan.h"

#include <algorithm>

namespace weir::store {

namespace {

// Sorts positions by one of the items' fingerprints.
template <typename Positions>
void sort_by(Positions& positions, std::span<const Item> items, Fingerprint Item::*key) {
  std::sort(positions.begin(), positions.end(),
            [&](std::size_t a, std::size_t b) { return items[a].*key < items[b].*key; });
}

}  // namespace

core::HolderId id_of(const Fingerprint& key) { return {.high = key.high, .low = key.low}; }

core::Memory LockedEntry::memory_for(const core::Limit& limit) {
  if (std::holds_alternative<core::SlidingLog>(limit)) {
    if (record != nullptr) return core::AdmissionLog(head, record->entries<core::LogEntry>());
    return core::AdmissionLog(head, {&spare_entry, 1});
  }
  if (std::holds_alternative<core::Concurrency>(limit)) {
    if (record != nullptr) return core::Holders(head.size, record->entries<core::Holder>());
    return core::Holders(head.size, {&spare_holder, 1});
  }
  return &state;
}

Table::LockedPlan::LockedPlan(Table& table, std::span<const Item> items, IfMissing if_missing,
                              Instant now, const core::HolderId& holder,
                              std::span<const Target> targets)
    : table_(table),
      items_(items),
      if_missing_(if_missing),
      holder_(holder),
      targets_(targets),
      now_(now) {
  for (SpinWait spin_wait; !lock_all(); spin_wait.wait()) {
    for (LockedEntry& entry : entries_) release(entry);
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    charges_.emplace_back(
        core::Charge{.limit = items[i].limit,
                     .memory = entries_[i].memory_for(*items[i].limit),
                     .ask = items[i].ask,
                     .shadow = items[i].shadow,
                     .id_salt = uses_overflow(i) ? id_of(items[i].key) : core::HolderId{},
                     .history = items[i].history});
  }
}

// Refused and peeked states are written back too: they may have been converted to another price.
Table::LockedPlan::~LockedPlan() { commit(); }

// Returns false if another thread has interfered: all locks must be released and taken again.
bool Table::LockedPlan::lock_all() {
  Positions order;
  Positions without_room;
  entries_.clear();
  refused_.reset();
  for (std::size_t i = 0; i < items_.size(); ++i) {
    entries_.emplace_back();
    order.emplace_back(i);
  }
  sort_by(order, items_, &Item::key);
  for (const std::size_t position : order) lock_entry(position, without_room);
  sort_by(without_room, items_, &Item::overflow_key);
  return std::all_of(without_room.begin(), without_room.end(),
                     [&](std::size_t position) { return place_new_key(position); });
}

void Table::LockedPlan::lock_entry(std::size_t position, Positions& without_room) {
  const Item& item = items_[position];
  LockedEntry& entry = entries_[position];
  const Target target = target_of(position);
  const IfMissing if_missing = target == Target::normal ? if_missing_ : IfMissing::ignore;
  if (target == Target::overflow ||
      table_.lock_slot(item.key, if_missing, entry, now_) == LockResult::no_room) {
    without_room.emplace_back(position);
    return;
  }
  bool has_room = inherit_overflow(position, if_missing);
  if (has_room && item.key.has_record() && entry.record == nullptr) {
    if (entry.slot != nullptr) {
      has_room = table_.attach_record(entry, *item.limit, if_missing, now_, holder_);
    }
    if (if_missing == IfMissing::simulate && entry.record == nullptr) {
      has_room = table_.has_room_for_record(now_, entry.free_at);
    }
  }
  if (has_room) return;
  const bool has_record = entry.record != nullptr;
  release(entry);
  entry = {.found = entry.found, .free_at = entry.free_at};
  has_record ? refuse(position) : void(without_room.emplace_back(position));
}

// Earlier calls of a new key may have been charged to the overflow state. While that is not at
// rest, the key starts with a copy of it. Returns false if there is no room for the copy, or, for a
// peek, if the overflow state itself has to decide.
bool Table::LockedPlan::inherit_overflow(std::size_t position, IfMissing if_missing) {
  const Item& item = items_[position];
  LockedEntry& entry = entries_[position];
  if (if_missing == IfMissing::ignore || !entry.found.never_seen()) return true;
  if (if_missing == IfMissing::insert) return table_.copy_overflow(entry, item, now_);
  const bool shares = item.when_full == WhenFull::share && !item.shadow;
  return !shares || !table_.overflow_in_use(item, now_);
}

// Peeks are not counted.
void Table::LockedPlan::count(std::atomic<std::uint64_t>& newcomers) const {
  if (if_missing_ == IfMissing::insert) newcomers.fetch_add(1, std::memory_order_relaxed);
}

// Refuses an item because the table is full. Also for a live key whose record cannot grow: permits
// from the overflow state, or uncounted ones, would come on top of its own. Shadow limits never
// refuse.
void Table::LockedPlan::refuse(std::size_t position) {
  if (items_[position].shadow) return count(table_.counts_.untracked);
  count(table_.counts_.denied);
  if (!refused_) refused_ = position;
}

// Handles an item without a slot by its `when_full`. Returns false if another thread has inserted
// the key in the meantime.
bool Table::LockedPlan::place_new_key(std::size_t position) {
  const Item& item = items_[position];
  if (target_of(position) == Target::overflow) {
    lock_charged_overflow(position);
  } else if (item.when_full == WhenFull::allow || item.shadow) {
    count(table_.counts_.untracked);
  } else {
    const core::State found = entries_[position].found;
    const bool shares = lock_overflow_for(position);
    if (shares && if_missing_ == IfMissing::insert && table_.has_changed(item.key, found)) {
      return false;
    }
    shares ? count(table_.counts_.shared) : refuse(position);
  }
  return true;
}

// Locks the overflow state for an item without a slot, if its `when_full` allows sharing.
bool Table::LockedPlan::lock_overflow_for(std::size_t position) {
  const Item& item = items_[position];
  LockedEntry& entry = entries_[position];
  return item.when_full == WhenFull::share && !overflow_is_locked(item) &&
         table_.lock_slot(item.overflow_key, if_missing_, entry, now_) != LockResult::no_room &&
         (!item.key.has_record() || table_.attach_record(entry, *item.limit, if_missing_, now_,
                                                         holder_.mixed_with(id_of(item.key))));
}

// Locks the overflow state for the refund of a receipt that was charged to it. Does nothing if that
// state has been evicted since.
void Table::LockedPlan::lock_charged_overflow(std::size_t position) {
  const Item& item = items_[position];
  LockedEntry& entry = entries_[position];
  if (overflow_is_locked(item)) return;
  const bool found =
      table_.lock_slot(item.overflow_key, IfMissing::ignore, entry, now_) == LockResult::locked;
  if (found && item.key.has_record()) {
    (void)table_.attach_record(entry, *item.limit, IfMissing::ignore, now_, holder_);
  }
}

// True if another item of this plan has locked the same overflow state: only the first one gets it.
bool Table::LockedPlan::overflow_is_locked(const Item& item) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const LockedEntry& other) {
    return other.slot != nullptr && other.key == item.overflow_key;
  });
}

core::Verdict Table::LockedPlan::refusal(const core::HolderId& holder,
                                         std::span<core::Decision> each) const {
  if (!each.empty()) (void)core::peek(charges_, now_, holder, each);
  const std::size_t position = *refused_;
  const RestTime record_free_at = entries_[position].free_at;
  const RestTime free_at =
      record_free_at != RestTime{} ? record_free_at : table_.soonest_rest(items_[position].key);
  const Nanos retry = until(now_, free_at.instant());
  const core::Decision refused{.outcome = Outcome::limited,
                               .limit = core::capacity(*items_[position].limit),
                               .remaining = 0,
                               .retry_after = std::max(retry, Nanos{1}),
                               .reset_after = std::max(retry, Nanos{1})};
  if (position < each.size()) each[position] = refused;
  return {.decision = refused, .tightest = position, .refusing = std::uint32_t{1} << position};
}

// An item that was not charged has nothing to give back. A charge to the overflow state must be
// given back to it, even if the key has its own slot by then.
void Table::LockedPlan::mark_receipts(std::span<core::Receipt> receipts) const {
  for (std::size_t i = 0; i < receipts.size(); ++i) {
    if (entries_[i].slot == nullptr) receipts[i] = {};
    if (uses_overflow(i)) mark_overflow(receipts[i]);
  }
}

void Table::LockedPlan::commit() {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    LockedEntry& entry = entries_[i];
    if (entry.slot == nullptr) continue;
    if (entry.record != nullptr || !(entry.state == entry.found)) {
      const Instant rest = core::rest_at(charges_[i], now_);
      entry.slot->extend_expiry(entry.key, RestTime::not_before(rest));
    }
    release(entry);
  }
}

void Table::LockedPlan::clear() {
  for (LockedEntry& entry : entries_) {
    if (entry.slot == nullptr) continue;
    if (entry.key.has_record() && !entry.found.never_seen()) {
      entry.outgrown = static_cast<Arena::Handle>(entry.found.what);
      entry.outgrown_bytes = table_.record_at(entry.outgrown).bytes();
      entry.record = nullptr;
    }
    entry.state = {};
    release(entry);
  }
}

// The entries of a record are written already; storing the head makes them valid.
void Table::LockedPlan::release(LockedEntry& entry) {
  if (entry.slot == nullptr) return;
  if (entry.record != nullptr) entry.record->set_head(entry.head);
  entry.slot->state().unlock(entry.found, entry.state);
  if (entry.outgrown != 0) table_.arena_.free(entry.outgrown, entry.outgrown_bytes);
  entry.slot = nullptr;
  entry.record = nullptr;
  entry.outgrown = 0;
}

}  // namespace weir::store
