#include "store/memory/claims.h"

#include <algorithm>

namespace weir::store {

namespace {

// Positions in the order of one of the items' fingerprints.
template <typename Positions>
void sort_by(Positions& positions, std::span<const Item> items, Fingerprint Item::*key) {
  std::sort(positions.begin(), positions.end(),
            [&](std::size_t a, std::size_t b) { return items[a].*key < items[b].*key; });
}

}  // namespace

core::HolderId id_of(const Fingerprint& key) { return {.high = key.high, .low = key.low}; }

core::Memory Claimed::memory_for(const core::Limit& limit) {
  if (std::holds_alternative<core::ExactLog>(limit)) {
    if (record != nullptr) return core::Log(head, record->entries<core::LogEntry>());
    return core::Log(head, {&spare_entry, 1});
  }
  if (std::holds_alternative<core::Concurrency>(limit)) {
    if (record != nullptr) return core::Holders(head.size, record->entries<core::Holder>());
    return core::Holders(head.size, {&spare_seat, 1});
  }
  return &state;
}

Table::Claims::Claims(Table& table, std::span<const Item> items, Absent absent, Instant now,
                      const core::HolderId& holder, std::span<const Place> places)
    : table_(table), items_(items), absent_(absent), holder_(holder), places_(places), now_(now) {
  for (Patience patience; !claim_all(); patience.wait()) {
    for (Claimed& claimed : claimed_) release(claimed);
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    charges_.emplace_back(core::Charge{.limit = items[i].limit,
                                       .memory = claimed_[i].memory_for(*items[i].limit),
                                       .ask = items[i].ask,
                                       .shadow = items[i].shadow,
                                       .id_salt = shares(i) ? id_of(items[i].key) : core::HolderId{},
                                       .history = items[i].history});
  }
}

// (Also what was refused, or only looked at, may have been carried over to another price.)
Table::Claims::~Claims() { commit(); }

// False if another thread has come between: everything is to be released, and tried again.
bool Table::Claims::claim_all() {
  Positions order;
  Positions without_room;
  claimed_.clear();
  refused_.reset();
  for (std::size_t i = 0; i < items_.size(); ++i) {
    claimed_.emplace_back();
    order.emplace_back(i);
  }
  sort_by(order, items_, &Item::key);
  for (const std::size_t position : order) claim(position, without_room);
  sort_by(without_room, items_, &Item::sharing);
  return std::all_of(without_room.begin(), without_room.end(),
                     [&](std::size_t position) { return settle_newcomer(position); });
}

void Table::Claims::claim(std::size_t position, Positions& without_room) {
  const Item& item = items_[position];
  Claimed& claimed = claimed_[position];
  const Place place = place_of(position);
  const Absent absent = place == Place::usual ? absent_ : Absent::stays;
  if (place == Place::shared || table_.claim(item.key, absent, claimed, now_) == Claim::no_room) {
    without_room.emplace_back(position);
    return;
  }
  bool has_room = starts_rightly(position, absent);
  if (has_room && item.key.has_record() && claimed.record == nullptr) {
    if (claimed.slot != nullptr) {
      has_room = table_.attach_record(claimed, *item.limit, absent, now_, holder_);
    }
    if (absent == Absent::would_come && claimed.record == nullptr) {
      has_room = table_.has_room_for_record(now_, claimed.free_at);
    }
  }
  if (has_room) return;
  const bool has_record = claimed.record != nullptr;
  release(claimed);
  claimed = {.found = claimed.found, .free_at = claimed.free_at};
  has_record ? refuse(position) : void(without_room.emplace_back(position));
}

// The earlier calls of a key that is not remembered may have been charged to the overflow state. As
// long as that is in use, the key starts with a copy of it, for which there may be no room. A peek
// is decided on the overflow state itself, as if there were none.
bool Table::Claims::starts_rightly(std::size_t position, Absent absent) {
  const Item& item = items_[position];
  Claimed& claimed = claimed_[position];
  if (absent == Absent::stays || !claimed.found.never_seen()) return true;
  if (absent == Absent::is_inserted) return table_.copy_overflow(claimed, item, now_);
  const bool shares = item.when_full == WhenFull::share && !item.shadow;
  return !shares || !table_.overflow_in_use(item, now_);
}

// Who only looks is not one of them.
void Table::Claims::count(std::atomic<std::uint64_t>& newcomers) const {
  if (absent_ == Absent::is_inserted) newcomers.fetch_add(1, std::memory_order_relaxed);
}

// A live key whose record cannot grow is no newcomer: what it could share or have uncounted would
// come on top of what it has. A shadow refuses nobody.
void Table::Claims::refuse(std::size_t position) {
  if (items_[position].shadow) return count(table_.counts_.untracked);
  count(table_.counts_.denied);
  if (!refused_) refused_ = position;
}

// False if the key has got a state of its own meanwhile.
bool Table::Claims::settle_newcomer(std::size_t position) {
  const Item& item = items_[position];
  if (place_of(position) == Place::shared) {
    claim_shared(position);
  } else if (item.when_full == WhenFull::allow || item.shadow) {
    count(table_.counts_.untracked);
  } else {
    const core::State found = claimed_[position].found;
    const bool shares = shares_overflow(position);
    if (shares && absent_ == Absent::is_inserted && table_.has_changed(item.key, found)) {
      return false;
    }
    shares ? count(table_.counts_.shared) : refuse(position);
  }
  return true;
}

// Claims the overflow state for an item without a slot of its own, if it may.
bool Table::Claims::shares_overflow(std::size_t position) {
  const Item& item = items_[position];
  Claimed& claimed = claimed_[position];
  return item.when_full == WhenFull::share && !another_shares(item) &&
         table_.claim(item.sharing, absent_, claimed, now_) != Claim::no_room &&
         (!item.key.has_record() || table_.attach_record(claimed, *item.limit, absent_, now_,
                                                         holder_.mixed_with(id_of(item.key))));
}

// (Nothing, if those who shared are at rest and forgotten.)
void Table::Claims::claim_shared(std::size_t position) {
  const Item& item = items_[position];
  Claimed& claimed = claimed_[position];
  if (another_shares(item)) return;
  const bool found = table_.claim(item.sharing, Absent::stays, claimed, now_) == Claim::got;
  if (found && item.key.has_record()) {
    (void)table_.attach_record(claimed, *item.limit, Absent::stays, now_, holder_);
  }
}

// Two of one limit cannot both share: the first has it.
bool Table::Claims::another_shares(const Item& item) const {
  return std::any_of(claimed_.begin(), claimed_.end(), [&](const Claimed& other) {
    return other.slot != nullptr && other.key == item.sharing;
  });
}

core::Verdict Table::Claims::refusal(const core::HolderId& holder,
                                     std::span<core::Decision> each) const {
  if (!each.empty()) (void)core::peek(charges_, now_, holder, each);
  const std::size_t position = *refused_;
  const RestTime record_free_at = claimed_[position].free_at;
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

// What was charged to nobody cannot be given back, and what was charged to those who share is not
// the key's own, even if it has a slot when it comes to that.
void Table::Claims::sign(std::span<core::Receipt> receipts) const {
  for (std::size_t i = 0; i < receipts.size(); ++i) {
    if (claimed_[i].slot == nullptr) receipts[i] = {};
    if (shares(i)) mark_shared(receipts[i]);
  }
}

void Table::Claims::commit() {
  for (std::size_t i = 0; i < claimed_.size(); ++i) {
    Claimed& claimed = claimed_[i];
    if (claimed.slot == nullptr) continue;
    if (claimed.record != nullptr || !(claimed.state == claimed.found)) {
      const Instant rest = core::rest_at(charges_[i], now_);
      claimed.slot->hold_until(claimed.key, RestTime::not_before(rest));
    }
    release(claimed);
  }
}

void Table::Claims::clear() {
  for (Claimed& claimed : claimed_) {
    if (claimed.slot == nullptr) continue;
    if (claimed.key.has_record() && !claimed.found.never_seen()) {
      claimed.outgrown = static_cast<Arena::Handle>(claimed.found.what);
      claimed.outgrown_bytes = table_.record_at(claimed.outgrown).bytes();
      claimed.record = nullptr;
    }
    claimed.state = {};
    release(claimed);
  }
}

// A record's entries are in place already; its head makes them count.
void Table::Claims::release(Claimed& claimed) {
  if (claimed.slot == nullptr) return;
  if (claimed.record != nullptr) claimed.record->set_head(claimed.head);
  claimed.slot->state().unlock(claimed.found, claimed.state);
  if (claimed.outgrown != 0) table_.arena_.free(claimed.outgrown, claimed.outgrown_bytes);
  claimed.slot = nullptr;
  claimed.record = nullptr;
  claimed.outgrown = 0;
}

}  // namespace weir::store
