#include "store/memory/table.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <new>
#include <thread>

#include "store/memory/claims.h"

namespace weir::store {

namespace {

// In a row with fewer live slots than this a key gets the place it prefers; beyond that it goes to
// the emptier of its two rows. That way nearly nine in ten keys are found in one of the two cache
// lines they prefer, and the first row overflows when about 82 in 100 of all slots are live.
constexpr unsigned kRoomy = 11;

// `0 <= result < count`, evenly for evenly spread hashes.
std::uint64_t spread(std::uint64_t hash, std::uint64_t count) {
  return static_cast<std::uint64_t>(static_cast<UInt128>(hash) * count >> 64);
}

// Two rows, which may be one, locked in the order of their places.
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
  return std::holds_alternative<core::ExactLog>(limit) ? sizeof(core::LogEntry)
                                                       : sizeof(core::Holder);
}

// A record's place in its slot's state. The first word only tells it from a state never seen.
core::State state_naming(Arena::Handle handle) { return {.when = 1, .what = handle}; }
Arena::Handle record_named_by(const core::State& state) {
  return static_cast<Arena::Handle>(state.what);
}

}  // namespace

// ---- Making one

Table::Table(const Layout& layout) : Table(Region::anonymous(layout)) { arena_.open(); }

Table::Table(Region region)
    : region_(std::move(region)),
      rows_(region_.rows()),
      row_count_(region_.header().layout.rows),
      sharing_count_(region_.header().layout.sharing_rows),
      seed_(region_.header().seed),
      resumes_at_(core::instant_of(region_.header().last_time.load())),
      resets_(std::min<std::size_t>(rows_.size(), 16'384)),
      arena_(region_.records()),
      notes_(region_.notes()) {
  // Receipts of another opening are worth nothing, whatever was reset since.
  static std::atomic<std::uint32_t> openings{0};
  const std::uint32_t first = ++openings * 0x9e3779b1;  // odd: no two begin alike
  for (auto& resets : resets_) resets.store(first, std::memory_order_relaxed);
}

Table::~Table() { region_.close(); }

namespace {

// No clock comes further than that, and nobody owes for longer: beyond it no calendar reaches.
bool is_possible(const core::State& state) {
  return core::instant_of(state.when) <= kLatest + core::kLongestDebt;
}

// How much of a state file is for notes: enough for thousands of keys with limits of their own, and
// little beside the rows. A tiny one has none.
std::size_t note_bytes_of(std::size_t bytes) {
  constexpr std::size_t tiny = 128 << 10;
  constexpr std::size_t most = 2 << 20;
  return bytes < tiny ? 0 : std::min(bytes / 16, most);
}

// Where a link leads to: a file that takes the place of another takes it there.
std::string real_path(const std::string& path) {
  std::error_code none;
  const auto real = std::filesystem::canonical(path, none);
  return none ? path : real.string();
}

}  // namespace

Result<std::unique_ptr<Table>, Error> Table::open(const MemoryOptions& options, Instant now,
                                                  Opened& opened, const ReadSlower& read_slower) {
  const auto eighth = static_cast<std::ptrdiff_t>(options.bytes / 8);
  const auto records = options.record_bytes < 0 ? eighth : options.record_bytes;
  const std::size_t notes = options.state_file.empty() ? 0 : note_bytes_of(options.bytes);
  const auto layout = Layout::fitting(options.bytes, static_cast<std::size_t>(records), notes);
  if (!layout) return layout.error();
  if (options.state_file.empty()) return std::make_unique<Table>(*layout);

  const std::string path = real_path(options.state_file);
  auto region = Region::file(path, *layout, opened);
  if (!region) return region.error();
  std::unique_ptr<Table> table(new Table(*std::move(region)));
  opened.disbelieved = table->restore_time(now);
  opened.dropped = table->restore(now);
  if (table->region_.header().layout != *layout) {
    if (read_slower) table->set_slower(read_slower(table->notes_.text()));
    auto resized = Table::resized(std::move(table), path, *layout, now);
    if (!resized) return resized;
    table = *std::move(resized);
  }
  table->region_.in_use();
  return table;
}

// What a killed process has left behind is put right: locks, tags, summaries, blocks in use.
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
  arena_.open();
  return dropped;
}

// The time that a file was left at is not covered by its checksum, since it changes all the time. A
// clock may have been wrong by days, or by months; one that was years ahead is a damaged word, and
// would take all calls along to where no window ends.
// So much it was ahead, then.
Nanos Table::restore_time(Instant now) {
  constexpr Nanos wrong_at_most = std::chrono::hours{24 * 366};
  const Nanos ahead = until(in_range(now), resumes_at_);
  const bool believed = ahead <= wrong_at_most;
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
  if (!arena_.claim(handle, record.bytes(), index_of(slot))) return false;
  if (record.has_sound_entries()) return true;
  arena_.free(handle, record.bytes());
  return false;
}

// Everything that is not at rest moves into a file of the new size, which then takes the place of
// the old one. Until then the old one stays as it is.
Result<std::unique_ptr<Table>, Error> Table::resized(std::unique_ptr<Table> old,
                                                     const std::string& path, const Layout& layout,
                                                     Instant now) {
  auto region = Region::successor(path, layout, old->seed_);
  if (!region) return region.error();
  std::unique_ptr<Table> table(new Table(*std::move(region)));
  table->arena_.open();
  table->resumes_at_ = old->resumes_at_;
  table->region_.header().last_time.store(old->region_.header().last_time.load());
  const Instant then = std::max(now, old->resumes_at_);
  if (const std::uint64_t left_over = table->copy_from(*old, then); left_over > 0) {
    table->region_.discard();
    return Error{"the state file " + path + " has " + std::to_string(left_over) +
                 " keys in use that do not fit into a table of " + std::to_string(layout.bytes()) +
                 " bytes: make the table larger"};
  }
  table->notes_.keep(old->notes_.text());
  if (auto error = table->region_.take_place_of(path)) return *std::move(error);
  return table;
}

std::uint64_t Table::copy_from(const Table& other, Instant now) {
  std::uint64_t left_over = 0;
  const auto slower = other.slower_limits();
  for (Row& row : other.rows_) {
    for (Slot& slot : row.slots()) {
      if (!Row::is_at_rest(slot, now, slower.get()) && !adopt_slot(other, slot, now)) ++left_over;
    }
  }
  return left_over;
}

bool Table::adopt_slot(const Table& other, Slot& slot, Instant now) {
  const Fingerprint owner = slot.owner();
  const core::State state = slot.state().load();
  if (!owner.has_record() || state.never_seen()) return adopt(owner, state, slot.rest(), now);

  Record& old = other.record_at(record_named_by(state));
  const auto handle = arena_.allocate(old.bytes(), 0, Arena::For::shared);
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
  Claimed claimed;
  if (claim(key, Absent::is_inserted, claimed, now) != Claim::got) return false;
  claimed.slot->hold_until(key, rest);
  claimed.slot->state().unlock(claimed.found, state);
  return true;
}

// ---- Finding

Row& Table::first_row(const Fingerprint& key) const noexcept {
  return key.is_shared() ? rows_[row_count_ + spread(key.high, sharing_count_)]
                         : rows_[spread(key.high, row_count_)];
}

Row& Table::second_row(const Fingerprint& key) const noexcept {
  const std::uint64_t other = (key.high ^ key.low) * 0xd6e8'feb8'6659'fd93;
  return key.is_shared() ? rows_[row_count_ + spread(other, sharing_count_)]
                         : rows_[spread(other, row_count_)];
}

void Table::prefetch(const Fingerprint& key) const noexcept {
  __builtin_prefetch(&first_row(key).preferred(key));
  __builtin_prefetch(&second_row(key).preferred(key));
}

// The lines that may be needed are fetched at the same time, not one after the other.
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

// ---- Claiming

Table::Claim Table::claim(const Fingerprint& key, Absent absent, Claimed& claimed, Instant& now) {
  for (Patience patience;; patience.wait()) {
    Slot* slot = find(key);
    if (slot == nullptr) {
      if (absent == Absent::stays) return Claim::nothing;
      if (absent == Absent::would_come) return has_room(key, now) ? Claim::nothing : Claim::no_room;
      const Claim inserted = insert(key, claimed, now);
      if (inserted != Claim::nothing) return inserted;
      continue;
    }
    const core::State found = slot->state().load();
    if (AtomicState::is_locked(found) || !slot->state().try_lock(found)) continue;
    if (slot->belongs_to(key)) {
      claimed.slot = slot;
      claimed.key = key;
      claimed.found = claimed.state = found;
      return Claim::got;
    }
    slot->state().unlock(found, found);
  }
}

// Locks the overflow state of the item's limit, if there is one that is not at rest.
bool Table::claim_overflow(const Item& item, Claimed& overflow, Instant now) {
  // The key's own slot is published before this, and the overflow state before `has_changed` looks
  // for the key: of two threads one sees what the other has done.
  synchronize(item.key);
  if (claim(item.sharing, Absent::stays, overflow, now) != Claim::got) return false;
  const bool is_in_use =
      !overflow.found.never_seen() && !Row::is_at_rest(*overflow.slot, now, slower_limits().get());
  if (is_in_use) return true;
  overflow.slot->state().unlock(overflow.found, overflow.found);
  return false;
}

bool Table::overflow_in_use(const Item& item, Instant now) {
  Claimed overflow;
  if (!claim_overflow(item, overflow, now)) return false;
  overflow.slot->state().unlock(overflow.found, overflow.found);
  return true;
}

// Makes a key that is new begin with what the overflow state says, if that is in use. False if
// there is no room for its record.
bool Table::copy_overflow(Claimed& claimed, const Item& item, Instant now) {
  Claimed overflow;
  if (!claim_overflow(item, overflow, now)) return true;
  bool copied = true;
  if (item.key.has_record()) {
    Record& from = record_at(record_named_by(overflow.found));
    copied = from.entry_bytes() != entry_bytes_of(*item.limit) ||
             copy_record(claimed, from, id_of(item.key), now);
  } else {
    claimed.state = overflow.found;
  }
  if (copied) claimed.slot->hold_until(claimed.key, overflow.slot->rest());
  overflow.slot->state().unlock(overflow.found, overflow.found);
  return copied;
}

// True if another thread has done something to the key since its state was `found`, or is about to.
bool Table::has_changed(const Fingerprint& key, const core::State& found) noexcept {
  synchronize(key);
  Slot* slot = find(key);
  return slot != nullptr && !(slot->state().load() == found);
}

// Nothing: somebody else has just done it.
Table::Claim Table::insert(const Fingerprint& key, Claimed& claimed, Instant& now) {
  Row& first = first_row(key);
  Row& second = second_row(key);
  // In a flood most end here. (Looking again makes sure that the key is not one of those who made
  // the rows full.)
  if (first.is_full(now) && second.is_full(now)) {
    return find(key) == nullptr ? Claim::no_room : Claim::nothing;
  }
  const LockedRows locked(first, second);
  if (first.find(key) != nullptr || second.find(key) != nullptr) return Claim::nothing;
  Slot* slot = settle(first, second, key, now);
  if (slot == nullptr) return Claim::no_room;
  claimed.slot = slot;
  claimed.key = key;
  claimed.found = claimed.state = {};
  now = std::max({now, first.forgotten(), second.forgotten()});
  return Claim::got;
}

// A slot in one of two rows. Where a summary is out of date and may matter, it is renewed.
Slot* Table::settle(Row& first, Row& second, const Fingerprint& key, Instant now) {
  const auto slower = slower_limits();
  const auto try_row = [&](Row& row, Row::Where where) -> Slot* {
    if (row.is_full(now)) return nullptr;
    Row::Vacated vacated;
    Slot* slot = row.settle(key, where, now, vacated, slower.get());
    if (slot != nullptr && vacated.owner != Fingerprint{}) forget(vacated);
    return slot;
  };
  for (Row* row : {&first, &second}) {
    if (row->live() >= kRoomy && row->earliest().has_come(now)) row->survey(now, slower.get());
    if (row->live() >= kRoomy) continue;
    if (Slot* slot = try_row(*row, Row::Where::preferred)) return slot;
  }
  Row* emptier = second.live() < first.live() ? &second : &first;
  Row* fuller = emptier == &first ? &second : &first;
  for (Row* row : {emptier, fuller}) {
    if (Slot* slot = try_row(*row, Row::Where::anywhere)) return slot;
    if (!row->is_full(now)) row->survey(now, slower.get());
  }
  return nullptr;
}

// Whether one that is not there could come.
bool Table::has_room(const Fingerprint& key, Instant now) {
  Row& first = first_row(key);
  Row& second = second_row(key);
  const auto slower = slower_limits();
  const LockedRows locked(first, second);
  return std::ranges::any_of(std::array{&first, &second}, [&](Row* row) {
    if (!row->is_full(now)) row->survey(now, slower.get());
    return !row->is_full(now);
  });
}

RestTime Table::soonest_rest(const Fingerprint& key) const noexcept {
  return std::min(first_row(key).soonest_rest(), second_row(key).soonest_rest());
}

void Table::forget(const Row::Vacated& vacated) {
  counts_.forgotten.fetch_add(1, std::memory_order_relaxed);
  if (!vacated.owner.has_record() || vacated.state.never_seen()) return;
  const Arena::Handle handle = record_named_by(vacated.state);
  arena_.free(handle, record_at(handle).bytes());
}

// ---- Records

Record& Table::record_at(Arena::Handle handle) const {
  return *reinterpret_cast<Record*>(arena_.at(handle));
}

// Finds the record of a claimed slot, and makes sure that there is room for one more entry. What is
// in the record stays as it is: who knows whether the call will be charged.
bool Table::attach_record(Claimed& claimed, const core::Limit& limit, Absent absent, Instant now,
                          const core::HolderId& holder) {
  const std::size_t entry_bytes = entry_bytes_of(limit);
  if (!claimed.found.never_seen()) {
    Record& record = record_at(record_named_by(claimed.found));
    // A limit that was of another kind has left something that this one cannot read.
    if (record.entry_bytes() == entry_bytes) {
      claimed.record = &record;
      claimed.head = record.head();
    }
  }
  if (absent != Absent::is_inserted) return true;
  if (claimed.record == nullptr) return grow_record(claimed, 1, entry_bytes, now);
  if (const auto* log = std::get_if<core::ExactLog>(&limit)) return make_room(claimed, *log, now);
  return make_room(claimed, *std::get_if<core::Concurrency>(&limit), holder, now);
}

// A log that cannot grow can do without: its newest entry takes others along.
bool Table::make_room(Claimed& claimed, const core::ExactLog& limit, Instant now) {
  const std::size_t size = claimed.head.size;
  if (size < claimed.record->capacity()) return true;
  core::Log::Head left = claimed.head;
  core::forget_old(limit, core::Log(left, claimed.record->entries<core::LogEntry>()), now);
  if (left.size == size && size < static_cast<std::size_t>(limit.count)) {
    grow_record(claimed, size * 2, sizeof(core::LogEntry), now);
  }
  return true;
}

// Whoever does not sit down behind all others makes them move. That happens in a copy, if there is
// memory for one: a process that is killed in the middle leaves everybody as they were.
bool Table::make_room(Claimed& claimed, const core::Concurrency& limit,
                      const core::HolderId& holder, Instant now) {
  const core::Holders holders(claimed.head.size, claimed.record->entries<core::Holder>());
  const std::span<const core::Holder> seated = holders.seated();
  if (seated.empty()) return true;
  const bool renews = core::holds(holders, holder, now);
  const bool somebody_goes = seated.front().until <= in_range(now);
  const bool nobody_comes = !renews && core::remaining(limit, holders, now) == 0;
  if (nobody_comes) return true;
  const bool has_seat = renews || somebody_goes || seated.size() < claimed.record->capacity();
  const bool others_move = renews || later(in_range(now), limit.lease) < seated.back().until;
  if (has_seat && !others_move) return true;
  const std::size_t seats = has_seat ? seated.size() + (renews ? 0 : 1) : seated.size() * 2;
  if (grow_record(claimed, seats, sizeof(core::Holder), now) || has_seat) return true;
  // Whichever comes first: memory for more of them, or somebody who goes.
  claimed.free_at = std::min(claimed.free_at, RestTime::not_before(seated.front().until));
  return false;
}

// A block with room for so many entries, empty; null if there is no memory.
Record* Table::allocate_record(Claimed& claimed, std::size_t capacity, std::size_t entry_bytes,
                               Instant now) {
  const std::size_t bytes = Arena::block_size(Record::bytes_for(capacity, entry_bytes));
  const Arena::For whom = claimed.key.is_shared()     ? Arena::For::shared
                          : claimed.record != nullptr ? Arena::For::live
                                                      : Arena::For::newcomer;
  auto handle = arena_.allocate(bytes, index_of(*claimed.slot), whom);
  while (!handle && reclaim_records(now, claimed.free_at)) {
    handle = arena_.allocate(bytes, index_of(*claimed.slot), whom);
  }
  if (!handle) return nullptr;
  claimed.state = state_naming(*handle);
  return new (arena_.at(*handle)) Record(claimed.key, bytes, entry_bytes);
}

namespace {

// Copies the entries of a record to another of the same kind, oldest first.
void copy_entries(Record& from, const core::Log::Head& head, Record& to) {
  const std::size_t entry_bytes = from.entry_bytes();
  const auto source = from.entries<std::byte>().data();
  const auto target = to.entries<std::byte>().data();
  for (std::size_t i = 0; i < head.size; ++i) {
    const std::size_t place = (head.first + i) % from.capacity();
    std::memcpy(target + i * entry_bytes, source + place * entry_bytes, entry_bytes);
  }
}

}  // namespace

// Moves what there is into another block. The old one is freed when nobody can find it any more.
bool Table::grow_record(Claimed& claimed, std::size_t capacity, std::size_t entry_bytes,
                        Instant now) {
  Record* grown = allocate_record(claimed, capacity, entry_bytes, now);
  if (grown == nullptr) return false;
  if (claimed.record != nullptr) copy_entries(*claimed.record, claimed.head, *grown);
  if (!claimed.found.never_seen()) {
    claimed.outgrown = record_named_by(claimed.found);
    claimed.outgrown_bytes = record_at(claimed.outgrown).bytes();
  }
  claimed.head.first = 0;
  grown->set_head(claimed.head);
  claimed.record = grown;
  return true;
}

// Gives a key without a record a copy of one, with room for one more entry. Holders of the key have
// their own ids in it.
bool Table::copy_record(Claimed& claimed, Record& from, const core::HolderId& among, Instant now) {
  const core::Log::Head head = from.head();
  Record* made = allocate_record(claimed, head.size + std::size_t{1}, from.entry_bytes(), now);
  if (made == nullptr) return false;
  copy_entries(from, head, *made);
  claimed.head = {.first = 0, .size = head.size};
  if (from.entry_bytes() == sizeof(core::Holder)) {
    for (core::Holder& holder : made->entries<core::Holder>().first(head.size)) {
      holder.id = holder.id.mixed_with(among);
    }
  }
  made->set_head(claimed.head);
  claimed.record = made;
  return true;
}

// Whether a newcomer could have a record. (Those that make room for it are at rest: nobody
// notices.)
bool Table::has_room_for_record(Instant now, RestTime& free_at) {
  while (!arena_.has_room(Arena::kSmallest, Arena::For::newcomer)) {
    if (!reclaim_records(now, free_at)) return false;
  }
  return true;
}

// Looks at some records in turn and frees the first that is at rest. If there was none, tells when
// one of them will be.
bool Table::reclaim_records(Instant now, RestTime& free_at) {
  constexpr int at_a_time = 64;
  bool freed = false;
  const auto slower = slower_limits();
  free_at = RestTime{RestTime::kMask};
  for (int i = 0; i < at_a_time && !freed; ++i) {
    const auto owner = arena_.next_owner();
    if (!owner) return false;
    Slot& slot = slot_at(*owner);
    free_at = std::min(free_at, slot.rest());
    if (!slot.rest().has_come(now)) continue;
    Row& row = rows_[*owner / Row::kSlots];
    row.lock();
    Row::Vacated vacated;
    if (row.evict(slot, now, vacated, slower.get())) {
      forget(vacated);
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
  for (Patience patience;;) {
    Slot* slot = find(item.key);
    if (slot == nullptr) break;
    const core::State found = slot->state().load();
    if (!slot->belongs_to(item.key)) continue;
    if (found.never_seen()) break;
    if (AtomicState::is_locked(found)) {
      patience.wait();
      continue;
    }
    const core::State state = core::carried(limit, found, now, item.history);
    const core::Taken taken = core::take(limit, state, now, item.ask);
    if (!(taken.next == found)) {
      const auto rest = RestTime::not_before(later(in_range(now), taken.decision.reset_after));
      if (!slot->hold_until(item.key, rest)) continue;
      if (!slot->state().compare_exchange(found, taken.next)) continue;
    }
    if (receipt != nullptr && taken.decision) {
      *receipt = {
          .at = in_range(now), .taken = item.ask.cost, .before = state, .after = taken.next};
    }
    return core::word_by_word(taken.decision);
  }
  const std::span<core::Receipt> receipts(receipt, receipt != nullptr ? 1 : 0);
  return take_claimed({&item, 1}, now, {}, receipts, {}).decision;
}

core::Decision Table::take_bucket(const core::Bucket& limit, const Item& item, Instant now,
                                  core::Receipt* receipt) {
  return take_state(limit, item, now, receipt);
}

core::Verdict Table::take_claimed(std::span<const Item> items, Instant now,
                                  const core::HolderId& holder, std::span<core::Receipt> receipts,
                                  std::span<core::Decision> each) {
  Claims claims(*this, items, Absent::is_inserted, now, holder);
  if (claims.refused()) return claims.refusal(holder, each);
  const core::Verdict verdict = core::take(claims.charges(), claims.now(), holder, receipts, each);
  if (verdict.decision) claims.sign(receipts);
  claims.commit();
  return verdict;
}

// (It has one verdict to return, which is made where it is returned to: a copy of what was just
// written has to wait for it.)
core::Verdict Table::take_alone(const Item& item, Instant now, core::Receipt* receipt,
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
  keep_time(now);
  const bool alone = items.size() == 1 && !items[0].key.has_record() && !items[0].shadow;
  if (!alone) return take_claimed(items, now, holder, receipts, each);
  return take_alone(items[0], now, receipts.empty() ? nullptr : &receipts[0], each);
}

core::Verdict Table::peek(std::span<const Item> items, Instant now, const core::HolderId& holder,
                          std::span<core::Decision> each) {
  Claims claims(*this, items, Absent::would_come, now, holder);
  if (claims.refused()) return claims.refusal(holder, each);
  const core::Verdict verdict = core::peek(claims.charges(), now, holder, each);
  claims.commit();
  return verdict;
}

core::Verdict Table::settle(std::span<const Item> items, Instant now,
                            std::span<core::Receipt> receipts,
                            std::span<const std::uint32_t> resets, std::span<core::Decision> each) {
  keep_time(now);
  // What is not debited needs no room, and concurrency limits are left alone.
  const auto debits = [](const Item& item) {
    return item.ask.cost > 0 && !std::holds_alternative<core::Concurrency>(*item.limit);
  };
  FixedVector<bool, core::kMaxLimits> shared;
  FixedVector<Place, core::kMaxLimits> places;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool was_shared = shared.emplace_back(unmark_shared(receipts[i]));
    places.emplace_back(debits(items[i]) ? Place::usual : was_shared ? Place::shared : Place::own);
  }
  // Those that find no room are not corrected; that is no reason to leave the others as they are.
  Claims claims(*this, items, Absent::is_inserted, now, {}, places);
  for (std::size_t i = 0; i < resets.size() && i < items.size(); ++i) {
    if (resets_of(items[i].key) != resets[i]) receipts[i] = {};
  }
  core::Verdict verdict = core::settle(claims.charges(), claims.now(), receipts, each);
  if (const auto without_room = claims.refused()) {
    verdict.refusing |= std::uint32_t{1} << *without_room;
  }
  claims.commit();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (shared[i]) mark_shared(receipts[i]);
  }
  return verdict;
}

bool Table::leave(std::span<const Item> items, Instant now, const core::HolderId& holder) {
  const auto leaves = [&](std::span<const Item> some, const core::HolderId& who) {
    Claims claims(*this, some, Absent::stays, now, who);
    const bool left = core::leave(claims.charges(), now, who);
    claims.commit();
    return left;
  };
  bool left = leaves(items, holder);
  // It may have come when there was no room for some of them. (One by one: two may share one seat.)
  for (const Item& item : items) {
    if (!item.key.has_record()) continue;
    Item shared = item;
    shared.key = item.sharing;
    left = leaves({&shared, 1}, holder.mixed_with(id_of(item.key))) || left;
  }
  return left;
}

void Table::reset(std::span<const Item> items, Instant now) {
  Claims claims(*this, items, Absent::stays, now);
  for (const Item& item : items) {
    resets_[item.key.high % resets_.size()].fetch_add(1, std::memory_order_acq_rel);
  }
  claims.clear();
}

// Of two threads that come here with the same key, the second sees all that the first did before.
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

// ---- Looking after it

void Table::keep_time(Instant now) noexcept {
  if (!region_.is_file()) return;
  constexpr std::uint64_t often_enough = std::uint64_t{1} << 27;  // an eighth of a second
  std::atomic<std::uint64_t>& last = region_.header().last_time;
  const std::uint64_t time = core::word_of(in_range(now));
  std::uint64_t kept = last.load(std::memory_order_relaxed);
  // Whoever comes second may have slept, and must not put the time back.
  if (time > kept + often_enough) {
    last.compare_exchange_strong(kept, time, std::memory_order_relaxed);
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
  // All of a large table takes milliseconds: whoever serves on the same core is let through now and
  // then.
  constexpr std::size_t piece = 4096;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (i % piece == 0) std::this_thread::yield();
    for (const Slot& slot : rows_[i].slots()) use.live += slot.rest().has_come(now) ? 0 : 1;
  }
  return use;
}

}  // namespace weir::store
