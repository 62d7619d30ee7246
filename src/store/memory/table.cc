#include "store/memory/table.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <new>
#include <thread>

#include "store/memory/locked_plan.h"

namespace weir::store {

namespace {

// In a row with fewer live slots than this, a key gets its preferred cache line; otherwise it goes
// to the emptier of its two rows. So nearly 90 % of all keys are found in one of their two
// preferred cache lines, and the first row overflows when about 82 % of all slots are live.
constexpr unsigned kMaxLiveForPreferred = 11;

// Maps a uniform hash to 0 <= result < count, uniformly.
std::uint64_t scaled(std::uint64_t hash, std::uint64_t count) {
  return static_cast<std::uint64_t>(static_cast<UInt128>(hash) * count >> 64);
}

// Locks two rows, which may be the same one, in the order of their addresses.
class LockedRows {
 public:
  LockedRows(Row& a, Row& b) : low_(std::min(&a, &b)), high_(std::max(&a, &b)) {
    low_->lock();
    if (high_ != low_) high_->lock();
  }
  ~LockedRows() {
    if (high_ != low_) high_->unlock();
    low_->unlock();
  }
  LockedRows(const LockedRows&) = delete;
  LockedRows& operator=(const LockedRows&) = delete;

 private:
  Row* low_;
  Row* high_;
};

std::size_t entry_bytes_of(const core::Limit& limit) {
  return std::holds_alternative<core::SlidingLog>(limit) ? sizeof(core::LogEntry)
                                                         : sizeof(core::Holder);
}

// The state of a slot with a record: the second word is the handle of the record, the first word
// only distinguishes it from a state never seen.
core::State state_naming(Arena::Handle handle) { return {.when = 1, .what = handle}; }
Arena::Handle record_named_by(const core::State& state) {
  return static_cast<Arena::Handle>(state.what);
}

}  // namespace

// ---- Creating and opening

Table::Table(const TableLayout& layout) : Table(Region::anonymous(layout)) {
  arena_.finish_restore();
}

Table::Table(Region region)
    : region_(std::move(region)),
      rows_(region_.rows()),
      row_count_(region_.header().layout.rows),
      overflow_row_count_(region_.header().layout.overflow_rows),
      seed_(region_.header().seed),
      resumes_at_(core::instant_of(region_.header().last_time.load())),
      resets_(std::min<std::size_t>(rows_.size(), 16'384)),
      arena_(region_.records()),
      notes_(region_.notes()) {
  // Receipts from before this opening must be void, so the counters start with a different value in
  // each.
  static std::atomic<std::uint32_t> openings{0};
  const std::uint32_t first = ++openings * 0x9e3779b1;  // odd: no two begin alike
  for (auto& resets : resets_) resets.store(first, std::memory_order_relaxed);
}

Table::~Table() { region_.close(); }

namespace {

// No valid state is later: neither clocks nor debts go further, and calendars do not reach beyond.
bool is_possible(const core::State& state) {
  return core::instant_of(state.when) <= kLatest + core::kLongestDebt;
}

// The part of a state file for notes: enough for the limits of thousands of overridden keys, but
// small compared to the rows. A tiny file has none.
std::size_t note_bytes_of(std::size_t bytes) {
  constexpr std::size_t tiny = 128 << 10;
  constexpr std::size_t max = 2 << 20;
  return bytes < tiny ? 0 : std::min(bytes / 16, max);
}

// Resolves symbolic links, so that a replacement file replaces the target and not the link.
std::string real_path(const std::string& path) {
  std::error_code none;
  const auto real = std::filesystem::canonical(path, none);
  return none ? path : real.string();
}

}  // namespace

Result<std::unique_ptr<Table>, Error> Table::open(const MemoryOptions& options, Instant now,
                                                  StateFileReport& opened,
                                                  const ReadSlower& read_slower) {
  const auto eighth = static_cast<std::ptrdiff_t>(options.bytes / 8);
  const auto records = options.record_bytes < 0 ? eighth : options.record_bytes;
  const std::size_t notes = options.state_file.empty() ? 0 : note_bytes_of(options.bytes);
  const auto layout = TableLayout::fitting(options.bytes, static_cast<std::size_t>(records), notes);
  if (!layout) return layout.error();
  if (options.state_file.empty()) return std::make_unique<Table>(*layout);

  const std::string path = real_path(options.state_file);
  auto region = Region::file(path, *layout, opened);
  if (!region) return region.error();
  std::unique_ptr<Table> table(new Table(*std::move(region)));
  opened.rejected_clock_lead = table->restore_time(now);
  opened.dropped = table->restore(now);
  if (table->region_.header().layout != *layout) {
    if (read_slower) table->set_slower(read_slower(table->notes_.text()));
    auto resized = Table::resized(std::move(table), path, *layout, now);
    if (!resized) return resized;
    table = *std::move(resized);
  }
  table->region_.mark_in_use();
  return table;
}

// Repairs the table after a restart, also after a kill: locks, tags, summaries, blocks in use.
std::uint64_t Table::restore(Instant now) {
  std::uint64_t dropped = 0;
  const Instant latest = later(std::max(now, resumes_at_), std::chrono::minutes{1});
  for (Row& row : rows_) {
    dropped += row.restore(latest, [&](Slot& slot) {
      const Fingerprint owner = slot.owner();
      const bool in_place = &first_row(owner) == &row || &second_row(owner) == &row;
      return in_place &&
             (owner.has_record() ? restore_record(slot) : is_possible(slot.state().load()));
    });
  }
  arena_.finish_restore();
  return dropped;
}

// Validates the last time in the file, which is not covered by the checksum because it changes all
// the time. A clock may have been wrong by months. A time that is more than a year ahead is taken
// for damage, since continuing from it would keep all windows from ending; then returns by how much
// it was ahead.
Nanos Table::restore_time(Instant now) {
  constexpr Nanos max_lead = std::chrono::hours{24 * 366};
  const Nanos ahead = until(in_range(now), resumes_at_);
  const bool believed = ahead <= max_lead;
  if (!believed) resumes_at_ = in_range(now);
  region_.header().last_time.store(core::word_of(resumes_at_));
  return believed ? Nanos{0} : ahead;
}

bool Table::restore_record(Slot& slot) {
  const core::State state = slot.state().load();
  if (state.never_seen()) return true;
  const Arena::Handle handle = record_named_by(state);
  if (state.what > UINT32_MAX || !arena_.contains(handle)) return false;
  Record& record = record_at(handle);
  if (!record.is_sound(slot.owner())) return false;
  if (!arena_.mark_in_use(handle, record.bytes(), index_of(slot))) return false;
  if (record.has_sound_entries()) return true;
  arena_.free(handle, record.bytes());
  return false;
}

// Copies everything that is not at rest into a file of the new size, which then replaces the old
// one. Until then the old file stays unchanged.
Result<std::unique_ptr<Table>, Error> Table::resized(std::unique_ptr<Table> old,
                                                     const std::string& path,
                                                     const TableLayout& layout, Instant now) {
  auto region = Region::create_replacement(path, layout, old->seed_);
  if (!region) return region.error();
  std::unique_ptr<Table> table(new Table(*std::move(region)));
  table->arena_.finish_restore();
  table->resumes_at_ = old->resumes_at_;
  table->region_.header().last_time.store(old->region_.header().last_time.load());
  const Instant then = std::max(now, old->resumes_at_);
  if (const std::uint64_t not_copied = table->copy_from(*old, then); not_copied > 0) {
    table->region_.discard();
    return Error{"the state file " + path + " has " + std::to_string(not_copied) +
                 " keys in use that do not fit into a table of " + std::to_string(layout.bytes()) +
                 " bytes: make the table larger"};
  }
  table->notes_.keep(old->notes_.text());
  if (auto error = table->region_.replace_file(path)) return *std::move(error);
  return table;
}

std::uint64_t Table::copy_from(const Table& other, Instant now) {
  std::uint64_t not_copied = 0;
  const auto slower = other.slower_limits();
  for (Row& row : other.rows_) {
    for (Slot& slot : row.slots()) {
      if (!Row::is_at_rest(slot, now, slower.get()) && !adopt_slot(other, slot, now)) ++not_copied;
    }
  }
  return not_copied;
}

bool Table::adopt_slot(const Table& other, Slot& slot, Instant now) {
  const Fingerprint owner = slot.owner();
  const core::State state = slot.state().load();
  if (!owner.has_record() || state.never_seen()) return adopt(owner, state, slot.rest(), now);

  Record& old = other.record_at(record_named_by(state));
  const auto handle = arena_.allocate(old.bytes(), 0, Arena::Purpose::overflow);
  if (!handle) return false;
  std::memcpy(arena_.at(*handle), static_cast<void*>(&old), old.bytes());
  if (!adopt(owner, state_naming(*handle), slot.rest(), now)) {
    arena_.free(*handle, old.bytes());
    return false;
  }
  arena_.set_owner(*handle, index_of(*find(owner)));
  return true;
}

bool Table::adopt(const Fingerprint& key, const core::State& state, RestTime rest, Instant now) {
  LockedEntry entry;
  if (lock_slot(key, IfMissing::insert, entry, now) != LockResult::locked) return false;
  entry.slot->extend_expiry(key, rest);
  entry.slot->state().unlock(entry.found, state);
  return true;
}

// ---- Finding

Row& Table::first_row(const Fingerprint& key) const noexcept {
  return key.is_overflow() ? rows_[row_count_ + scaled(key.high, overflow_row_count_)]
                           : rows_[scaled(key.high, row_count_)];
}

Row& Table::second_row(const Fingerprint& key) const noexcept {
  const std::uint64_t other = (key.high ^ key.low) * 0xd6e8'feb8'6659'fd93;
  return key.is_overflow() ? rows_[row_count_ + scaled(other, overflow_row_count_)]
                           : rows_[scaled(other, row_count_)];
}

void Table::prefetch(const Fingerprint& key) const noexcept {
  __builtin_prefetch(&first_row(key).preferred(key));
  __builtin_prefetch(&second_row(key).preferred(key));
}

// Prefetches all cache lines that may be needed, so that their misses overlap.
Slot* Table::find(const Fingerprint& key) const noexcept {
  Row& first = first_row(key);
  Row& second = second_row(key);
  __builtin_prefetch(&second.preferred(key));
  __builtin_prefetch(&first);
  __builtin_prefetch(&second);
  if (Slot* slot = first.find_preferred(key)) return slot;
  if (Slot* slot = second.find_preferred(key)) return slot;
  if (Slot* slot = first.find(key)) return slot;
  return second.find(key);
}

std::uint32_t Table::index_of(const Slot& slot) const {
  const auto offset =
      reinterpret_cast<const std::byte*>(&slot) - reinterpret_cast<const std::byte*>(rows_.data());
  const auto row = static_cast<std::size_t>(offset) / sizeof(Row);
  return static_cast<std::uint32_t>(row * Row::kSlots +
                                    static_cast<std::size_t>(&slot - rows_[row].slots().data()));
}

Slot& Table::slot_at(std::uint32_t index) const {
  return rows_[index / Row::kSlots].slots()[index % Row::kSlots];
}

// ---- Locking

Table::LockResult Table::lock_slot(const Fingerprint& key, IfMissing if_missing, LockedEntry& entry,
                                   Instant& now) {
  for (SpinWait spin_wait;; spin_wait.wait()) {
    Slot* slot = find(key);
    if (slot == nullptr) {
      if (if_missing == IfMissing::ignore) return LockResult::absent;
      if (if_missing == IfMissing::simulate)
        return has_room(key, now) ? LockResult::absent : LockResult::no_room;
      const LockResult inserted = insert(key, entry, now);
      if (inserted != LockResult::absent) return inserted;
      continue;
    }
    const core::State found = slot->state().load();
    if (AtomicState::is_locked(found) || !slot->state().try_lock(found)) continue;
    if (slot->belongs_to(key)) {
      entry.slot = slot;
      entry.key = key;
      entry.found = entry.state = found;
      return LockResult::locked;
    }
    slot->state().unlock(found, found);
  }
}

// Locks the overflow state of the item's limit. Returns false if it is at rest or not in the table.
bool Table::lock_overflow(const Item& item, LockedEntry& overflow, Instant now) {
  // Pairs with `has_changed`: this thread has published the key's slot before this point, the other
  // thread has locked the overflow state before it looks for the key. So at least one of the two
  // sees the change of the other.
  synchronize(item.key);
  if (lock_slot(item.overflow_key, IfMissing::ignore, overflow, now) != LockResult::locked)
    return false;
  const bool is_in_use =
      !overflow.found.never_seen() && !Row::is_at_rest(*overflow.slot, now, slower_limits().get());
  if (is_in_use) return true;
  overflow.slot->state().unlock(overflow.found, overflow.found);
  return false;
}

bool Table::overflow_in_use(const Item& item, Instant now) {
  LockedEntry overflow;
  if (!lock_overflow(item, overflow, now)) return false;
  overflow.slot->state().unlock(overflow.found, overflow.found);
  return true;
}

// Initializes a new key with a copy of the overflow state, if that is not at rest. Returns false if
// there is no room for the record.
bool Table::copy_overflow(LockedEntry& entry, const Item& item, Instant now) {
  LockedEntry overflow;
  if (!lock_overflow(item, overflow, now)) return true;
  bool copied = true;
  if (item.key.has_record()) {
    Record& from = record_at(record_named_by(overflow.found));
    copied = from.entry_bytes() != entry_bytes_of(*item.limit) ||
             copy_record(entry, from, id_of(item.key), now);
  } else {
    entry.state = overflow.found;
  }
  if (copied) entry.slot->extend_expiry(entry.key, overflow.slot->rest());
  overflow.slot->state().unlock(overflow.found, overflow.found);
  return copied;
}

// True if another thread has changed or locked the key since its state was `found`.
bool Table::has_changed(const Fingerprint& key, const core::State& found) noexcept {
  synchronize(key);
  Slot* slot = find(key);
  return slot != nullptr && !(slot->state().load() == found);
}

// Inserts a key and locks its state. Returns `absent` if another thread has just inserted it.
Table::LockResult Table::insert(const Fingerprint& key, LockedEntry& entry, Instant& now) {
  Row& first = first_row(key);
  Row& second = second_row(key);
  // The fast path during a flood of new keys. Looks for the key again, because it may be among
  // those that have filled the rows since.
  if (first.is_full(now) && second.is_full(now)) {
    return find(key) == nullptr ? LockResult::no_room : LockResult::absent;
  }
  const LockedRows locked(first, second);
  if (first.find(key) != nullptr || second.find(key) != nullptr) return LockResult::absent;
  Slot* slot = place(first, second, key, now);
  if (slot == nullptr) return LockResult::no_room;
  entry.slot = slot;
  entry.key = key;
  entry.found = entry.state = {};
  now = std::max({now, first.last_eviction(), second.last_eviction()});
  return LockResult::locked;
}

// Assigns a slot in one of two rows. Recounts a row whose summary may be out of date, if it
// matters.
Slot* Table::place(Row& first, Row& second, const Fingerprint& key, Instant now) {
  const auto slower = slower_limits();
  const auto try_row = [&](Row& row, Row::Where where) -> Slot* {
    if (row.is_full(now)) return nullptr;
    Row::Evicted evicted;
    Slot* slot = row.place(key, where, now, evicted, slower.get());
    if (slot != nullptr && evicted.owner != Fingerprint{}) forget(evicted);
    return slot;
  };
  for (Row* row : {&first, &second}) {
    if (row->live() >= kMaxLiveForPreferred && row->earliest().has_come(now))
      row->recount(now, slower.get());
    if (row->live() >= kMaxLiveForPreferred) continue;
    if (Slot* slot = try_row(*row, Row::Where::preferred)) return slot;
  }
  Row* emptier = second.live() < first.live() ? &second : &first;
  Row* fuller = emptier == &first ? &second : &first;
  for (Row* row : {emptier, fuller}) {
    if (Slot* slot = try_row(*row, Row::Where::anywhere)) return slot;
    if (!row->is_full(now)) row->recount(now, slower.get());
  }
  return nullptr;
}

// True if a key that is not in the table could be inserted.
bool Table::has_room(const Fingerprint& key, Instant now) {
  Row& first = first_row(key);
  Row& second = second_row(key);
  const auto slower = slower_limits();
  const LockedRows locked(first, second);
  return std::ranges::any_of(std::array{&first, &second}, [&](Row* row) {
    if (!row->is_full(now)) row->recount(now, slower.get());
    return !row->is_full(now);
  });
}

RestTime Table::soonest_rest(const Fingerprint& key) const noexcept {
  return std::min(first_row(key).soonest_rest(), second_row(key).soonest_rest());
}

void Table::forget(const Row::Evicted& evicted) {
  counts_.forgotten.fetch_add(1, std::memory_order_relaxed);
  if (!evicted.owner.has_record() || evicted.state.never_seen()) return;
  const Arena::Handle handle = record_named_by(evicted.state);
  arena_.free(handle, record_at(handle).bytes());
}

// ---- Records

Record& Table::record_at(Arena::Handle handle) const {
  return *reinterpret_cast<Record*>(arena_.at(handle));
}

// Finds the record of a locked slot, and with IfMissing::insert ensures room for one more entry.
// Does not change the entries, because the call may be refused.
bool Table::attach_record(LockedEntry& entry, const core::Limit& limit, IfMissing if_missing,
                          Instant now, const core::HolderId& holder) {
  const std::size_t entry_bytes = entry_bytes_of(limit);
  if (!entry.found.never_seen()) {
    Record& record = record_at(record_named_by(entry.found));
    // If the limit's algorithm has changed, the record may have entries of the other kind.
    if (record.entry_bytes() == entry_bytes) {
      entry.record = &record;
      entry.head = record.head();
    }
  }
  if (if_missing != IfMissing::insert) return true;
  if (entry.record == nullptr) return grow_record(entry, 1, entry_bytes, now);
  if (const auto* log = std::get_if<core::SlidingLog>(&limit)) return make_room(entry, *log, now);
  return make_room(entry, *std::get_if<core::Concurrency>(&limit), holder, now);
}

// Never fails: a full log merges new admissions into its newest entry.
bool Table::make_room(LockedEntry& entry, const core::SlidingLog& limit, Instant now) {
  const std::size_t size = entry.head.size;
  if (size < entry.record->capacity()) return true;
  core::AdmissionLog::Head left = entry.head;
  core::forget_old(limit, core::AdmissionLog(left, entry.record->entries<core::LogEntry>()), now);
  if (left.size == size && size < static_cast<std::size_t>(limit.count)) {
    grow_record(entry, size * 2, sizeof(core::LogEntry), now);
  }
  return true;
}

// A holder that is not inserted at the end moves other holders. That is done in a copy of the
// record, if there is memory for one, so that a process killed in the middle leaves the old record
// intact.
bool Table::make_room(LockedEntry& entry, const core::Concurrency& limit,
                      const core::HolderId& holder, Instant now) {
  const core::Holders holders(entry.head.size, entry.record->entries<core::Holder>());
  const std::span<const core::Holder> present = holders.all();
  if (present.empty()) return true;
  const bool renews = core::holds(holders, holder, now);
  const bool has_expired = present.front().until <= in_range(now);
  const bool is_refused = !renews && core::remaining(limit, holders, now) == 0;
  if (is_refused) return true;
  const bool has_room = renews || has_expired || present.size() < entry.record->capacity();
  const bool others_move = renews || later(in_range(now), limit.hold_time) < present.back().until;
  if (has_room && !others_move) return true;
  const std::size_t capacity = has_room ? present.size() + (renews ? 0 : 1) : present.size() * 2;
  if (grow_record(entry, capacity, sizeof(core::Holder), now) || has_room) return true;
  // The earlier of: memory for a larger record, or the first holder that expires.
  entry.free_at = std::min(entry.free_at, RestTime::not_before(present.front().until));
  return false;
}

// Allocates an empty record for `capacity` entries; null if there is no memory.
Record* Table::allocate_record(LockedEntry& entry, std::size_t capacity, std::size_t entry_bytes,
                               Instant now) {
  const std::size_t bytes = Arena::block_size(Record::bytes_for(capacity, entry_bytes));
  const Arena::Purpose whom = entry.key.is_overflow()   ? Arena::Purpose::overflow
                              : entry.record != nullptr ? Arena::Purpose::growth
                                                        : Arena::Purpose::new_key;
  auto handle = arena_.allocate(bytes, index_of(*entry.slot), whom);
  while (!handle && reclaim_records(now, entry.free_at)) {
    handle = arena_.allocate(bytes, index_of(*entry.slot), whom);
  }
  if (!handle) return nullptr;
  entry.state = state_naming(*handle);
  return new (arena_.at(*handle)) Record(entry.key, bytes, entry_bytes);
}

namespace {

// Copies the entries of a record to another of the same kind, oldest first.
void copy_entries(Record& from, const core::AdmissionLog::Head& head, Record& to) {
  const std::size_t entry_bytes = from.entry_bytes();
  const auto source = from.entries<std::byte>().data();
  const auto target = to.entries<std::byte>().data();
  for (std::size_t i = 0; i < head.size; ++i) {
    const std::size_t place = (head.first + i) % from.capacity();
    std::memcpy(target + i * entry_bytes, source + place * entry_bytes, entry_bytes);
  }
}

}  // namespace

// Moves the record into a larger block. The old block is freed once the slot no longer refers to
// it.
bool Table::grow_record(LockedEntry& entry, std::size_t capacity, std::size_t entry_bytes,
                        Instant now) {
  Record* grown = allocate_record(entry, capacity, entry_bytes, now);
  if (grown == nullptr) return false;
  if (entry.record != nullptr) copy_entries(*entry.record, entry.head, *grown);
  if (!entry.found.never_seen()) {
    entry.outgrown = record_named_by(entry.found);
    entry.outgrown_bytes = record_at(entry.outgrown).bytes();
  }
  entry.head.first = 0;
  grown->set_head(entry.head);
  entry.record = grown;
  return true;
}

// Copies a record for a key without one, with room for one more entry. The salt is removed from the
// ids of the key's own holders.
bool Table::copy_record(LockedEntry& entry, Record& from, const core::HolderId& salt, Instant now) {
  const core::AdmissionLog::Head head = from.head();
  Record* made = allocate_record(entry, head.size + std::size_t{1}, from.entry_bytes(), now);
  if (made == nullptr) return false;
  copy_entries(from, head, *made);
  entry.head = {.first = 0, .size = head.size};
  if (from.entry_bytes() == sizeof(core::Holder)) {
    for (core::Holder& holder : made->entries<core::Holder>().first(head.size)) {
      holder.id = holder.id.mixed_with(salt);
    }
  }
  made->set_head(entry.head);
  entry.record = made;
  return true;
}

// True if a new key could have a record. Evicts keys at rest to make room.
bool Table::has_room_for_record(Instant now, RestTime& free_at) {
  while (!arena_.has_room(Arena::kMinBlock, Arena::Purpose::new_key)) {
    if (!reclaim_records(now, free_at)) return false;
  }
  return true;
}

// Checks the next 64 records and frees the first one at rest. `free_at` is set to the earliest rest
// time among those checked.
bool Table::reclaim_records(Instant now, RestTime& free_at) {
  constexpr int max_checked = 64;
  bool freed = false;
  const auto slower = slower_limits();
  free_at = RestTime{RestTime::kMask};
  for (int i = 0; i < max_checked && !freed; ++i) {
    const auto owner = arena_.next_owner();
    if (!owner) return false;
    Slot& slot = slot_at(*owner);
    free_at = std::min(free_at, slot.rest());
    if (!slot.rest().has_come(now)) continue;
    Row& row = rows_[*owner / Row::kSlots];
    row.lock();
    Row::Evicted evicted;
    if (row.evict(slot, now, evicted, slower.get())) {
      forget(evicted);
      freed = true;
    }
    row.unlock();
  }
  return freed;
}

// ---- Deciding

template <typename L>
core::Decision Table::take_state(const L& limit, const Item& item, Instant now,
                                 core::Receipt* receipt) {
  for (SpinWait spin_wait;;) {
    Slot* slot = find(item.key);
    if (slot == nullptr) break;
    const core::State found = slot->state().load();
    if (!slot->belongs_to(item.key)) continue;
    if (found.never_seen()) break;
    if (AtomicState::is_locked(found)) {
      spin_wait.wait();
      continue;
    }
    const core::State state = core::state_under_current_limit(limit, found, now, item.history);
    const core::StepResult taken = core::take(limit, state, now, item.ask);
    if (!(taken.next == found)) {
      const auto rest = RestTime::not_before(later(in_range(now), taken.decision.reset_after));
      if (!slot->extend_expiry(item.key, rest)) continue;
      if (!slot->state().compare_exchange(found, taken.next)) continue;
    }
    if (receipt != nullptr && taken.decision) {
      *receipt = {
          .at = in_range(now), .taken = item.ask.cost, .before = state, .after = taken.next};
    }
    return core::word_by_word(taken.decision);
  }
  const std::span<core::Receipt> receipts(receipt, receipt != nullptr ? 1 : 0);
  return take_locked({&item, 1}, now, {}, receipts, {}).decision;
}

core::Decision Table::take_bucket(const core::Bucket& limit, const Item& item, Instant now,
                                  core::Receipt* receipt) {
  return take_state(limit, item, now, receipt);
}

core::Verdict Table::take_locked(std::span<const Item> items, Instant now,
                                 const core::HolderId& holder, std::span<core::Receipt> receipts,
                                 std::span<core::Decision> each) {
  LockedPlan plan(*this, items, IfMissing::insert, now, holder);
  if (plan.refused()) return plan.refusal(holder, each);
  const core::Verdict verdict = core::take(plan.charges(), plan.now(), holder, receipts, each);
  if (verdict.decision) plan.mark_receipts(receipts);
  plan.commit();
  return verdict;
}

// Has a single return value, so that it is constructed in place: copying a value that was just
// written would stall.
core::Verdict Table::take_single(const Item& item, Instant now, core::Receipt* receipt,
                                 std::span<core::Decision> each) {
  const auto take_by = [&](const auto& limit) {
    if constexpr (core::kHasState<std::remove_cvref_t<decltype(limit)>>) {
      return take_state(limit, item, now, receipt);
    } else {
      return core::Decision{};  // has a record
    }
  };
  core::Verdict verdict{.decision = std::visit(take_by, *item.limit)};
  verdict.refusing = verdict.decision ? 0 : 1;
  if (!each.empty()) each[0] = verdict.decision;
  return verdict;
}

core::Verdict Table::take(std::span<const Item> items, Instant now, const core::HolderId& holder,
                          std::span<core::Receipt> receipts, std::span<core::Decision> each) {
  record_time(now);
  const bool alone = items.size() == 1 && !items[0].key.has_record() && !items[0].shadow;
  if (!alone) return take_locked(items, now, holder, receipts, each);
  return take_single(items[0], now, receipts.empty() ? nullptr : &receipts[0], each);
}

core::Verdict Table::peek(std::span<const Item> items, Instant now, const core::HolderId& holder,
                          std::span<core::Decision> each) {
  LockedPlan plan(*this, items, IfMissing::simulate, now, holder);
  if (plan.refused()) return plan.refusal(holder, each);
  const core::Verdict verdict = core::peek(plan.charges(), now, holder, each);
  plan.commit();
  return verdict;
}

core::Verdict Table::settle(std::span<const Item> items, Instant now,
                            std::span<core::Receipt> receipts,
                            std::span<const std::uint32_t> resets, std::span<core::Decision> each) {
  record_time(now);
  // Only debits may need a new slot. Concurrency limits do not change.
  const auto debits = [](const Item& item) {
    return item.ask.cost > 0 && !std::holds_alternative<core::Concurrency>(*item.limit);
  };
  FixedVector<bool, core::kMaxLimits> shared;
  FixedVector<Target, core::kMaxLimits> targets;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool was_shared = shared.emplace_back(unmark_overflow(receipts[i]));
    targets.emplace_back(debits(items[i]) ? Target::normal
                         : was_shared     ? Target::overflow
                                          : Target::own_slot);
  }
  // Items without room are not corrected; the others are.
  LockedPlan plan(*this, items, IfMissing::insert, now, {}, targets);
  for (std::size_t i = 0; i < resets.size() && i < items.size(); ++i) {
    if (resets_of(items[i].key) != resets[i]) receipts[i] = {};
  }
  core::Verdict verdict = core::settle(plan.charges(), plan.now(), receipts, each);
  if (const auto without_room = plan.refused()) {
    verdict.refusing |= std::uint32_t{1} << *without_room;
  }
  plan.commit();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (shared[i]) mark_overflow(receipts[i]);
  }
  return verdict;
}

bool Table::leave(std::span<const Item> items, Instant now, const core::HolderId& holder) {
  const auto leaves = [&](std::span<const Item> some, const core::HolderId& who) {
    LockedPlan plan(*this, some, IfMissing::ignore, now, who);
    const bool left = core::leave(plan.charges(), now, who);
    plan.commit();
    return left;
  };
  bool left = leaves(items, holder);
  // The holder may have entered through an overflow state. One by one, because two items may have
  // the same overflow state.
  for (const Item& item : items) {
    if (!item.key.has_record()) continue;
    Item overflow = item;
    overflow.key = item.overflow_key;
    left = leaves({&overflow, 1}, holder.mixed_with(id_of(item.key))) || left;
  }
  return left;
}

void Table::reset(std::span<const Item> items, Instant now) {
  LockedPlan plan(*this, items, IfMissing::ignore, now);
  for (const Item& item : items) {
    resets_[item.key.high % resets_.size()].fetch_add(1, std::memory_order_acq_rel);
  }
  plan.clear();
}

// A synchronization point: of two threads that call this with the same key, the second one sees all
// writes that the first one made before.
void Table::synchronize(const Fingerprint& key) noexcept {
  resets_[key.high % resets_.size()].fetch_add(0, std::memory_order_acq_rel);
}

std::uint32_t Table::resets_of(const Fingerprint& key) const noexcept {
  return resets_[key.high % resets_.size()].load(std::memory_order_acquire);
}

// ---- Limits that change

void Table::set_slower(std::shared_ptr<const SlowerLimits> slower) {
  const std::lock_guard lock(slower_mutex_);
  slower_ = std::move(slower);
  has_slower_.store(slower_ != nullptr, std::memory_order_release);
}

std::shared_ptr<const SlowerLimits> Table::slower_limits() const {
  if (!has_slower_.load(std::memory_order_acquire)) [[likely]]
    return nullptr;
  const std::lock_guard lock(slower_mutex_);
  return slower_;
}

// ---- Maintenance

void Table::record_time(Instant now) noexcept {
  if (!region_.is_file()) return;
  constexpr std::uint64_t interval = std::uint64_t{1} << 27;  // an eighth of a second
  std::atomic<std::uint64_t>& last = region_.header().last_time;
  const std::uint64_t time = core::word_of(in_range(now));
  std::uint64_t recorded = last.load(std::memory_order_relaxed);
  // The swap fails if another thread was faster: a delayed thread must not set the time back.
  if (time > recorded + interval) {
    last.compare_exchange_strong(recorded, time, std::memory_order_relaxed);
  }
}

MemoryUse Table::use(Instant now) const {
  MemoryUse use{.bytes = region_.size(),
                .slots = rows_.size() * Row::kSlots,
                .record_bytes = arena_.size(),
                .record_used = arena_.used(),
                .forgotten = counts_.forgotten.load(std::memory_order_relaxed),
                .shared = counts_.shared.load(std::memory_order_relaxed),
                .denied = counts_.denied.load(std::memory_order_relaxed),
                .untracked = counts_.untracked.load(std::memory_order_relaxed)};
  // Scanning a large table takes milliseconds: yields to threads that serve calls on the same core.
  constexpr std::size_t rows_per_yield = 4096;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (i % rows_per_yield == 0) std::this_thread::yield();
    for (const Slot& slot : rows_[i].slots()) use.live += slot.rest().has_come(now) ? 0 : 1;
  }
  return use;
}

}  // namespace weir::store
