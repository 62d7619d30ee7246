#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>

#include "core/plan.h"
#include "store/memory/arena.h"
#include "store/memory/notes.h"
#include "store/memory/record.h"
#include "store/memory/region.h"
#include "store/memory/slot.h"
#include "store/memory/slower_limits.h"
#include "weir/memory.h"

namespace weir::store {

// One limit in a decision, with the fingerprint of its key.
struct Item {
  const core::Limit* limit = nullptr;
  Fingerprint key{};
  Fingerprint
      overflow_key{};  // of the limit's overflow state, for new keys while the table is full
  core::Ask ask{};
  bool shadow = false;
  WhenFull when_full = WhenFull::share;
  const core::PriceHistory* history = nullptr;  // of the key's bucket; null: never changed
};

struct LockedEntry;

// A concurrent hash table of fixed size for the states of all keys under all limits. Each key has
// two rows of slots to lie in; limits that need more than a State have records in an arena. See
// slot.h for how lock-free takes and evictions work together.
//
// A new key gets a slot that is empty or at rest. If both its rows are full of live keys, the
// item's `when_full` decides; a live key is never evicted. With WhenFull::share, the call is
// charged to the overflow state of its limit. While that is not at rest, new keys start with a copy
// of it, since their earlier calls may be counted in it. So a key may get fewer permits than it
// should, but never more. Clients do not know the seed of the hash and cannot aim a flood of keys
// at a row.
//
// Several items are decided together: their states are locked in the order of their keys, which
// prevents deadlocks; the decision is made on copies, which are then written back. A single item
// whose data is a State needs no lock.
//
// Thread-safe. Time is an argument.
class Table {
 public:
  // In the memory of this process. Throws std::bad_alloc.
  explicit Table(const TableLayout& layout);

  // In a state file, which is opened or created, or in the memory of this process: as the options
  // say. `opened` is filled in.
  //
  // A file of another size is copied without keys at rest. `read_slower` finds, in the notes of the
  // file, the limits that have become slower since a key was written.
  using ReadSlower = std::function<std::shared_ptr<const SlowerLimits>(std::string_view notes)>;
  static Result<std::unique_ptr<Table>, Error> open(const MemoryOptions& options, Instant now,
                                                    StateFileReport& opened,
                                                    const ReadSlower& read_slower = {});

  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  std::uint64_t seed() const { return seed_; }
  // The last time in the state file; decisions must not be made at an earlier time.
  Instant resumes_at() const { return resumes_at_; }

  // As core::take, on the states in the table. At most core::kMaxLimits items with different keys.
  // `each` receives the decision of each limit, as far as it has room.
  core::Verdict take(std::span<const Item> items, Instant now, const core::HolderId& holder = {},
                     std::span<core::Receipt> receipts = {}, std::span<core::Decision> each = {});
  core::Verdict peek(std::span<const Item> items, Instant now, const core::HolderId& holder = {},
                     std::span<core::Decision> each = {});
  // Permits are given back to the state that was charged: the key's own or the overflow state.
  // Receipts from before a reset of their key are void: `resets` has the values of `resets_of` from
  // before each take. (Empty: there was no reset.)
  core::Verdict settle(std::span<const Item> items, Instant now, std::span<core::Receipt> receipts,
                       std::span<const std::uint32_t> resets = {},
                       std::span<core::Decision> each = {});
  std::uint32_t resets_of(const Fingerprint& key) const noexcept;
  bool leave(std::span<const Item> items, Instant now, const core::HolderId& holder);
  void reset(std::span<const Item> items, Instant now);

  // The fast path for a single item under a bucket.
  core::Decision take_bucket(const core::Bucket& limit, const Item& item, Instant now,
                             core::Receipt* receipt = nullptr);

  // Prefetches the cache lines that a take of the key will read.
  void prefetch(const Fingerprint& key) const noexcept;

  // Sets the limits that have become slower, replacing those set before. Their slots are evicted
  // later than their rest times say.
  void set_slower(std::shared_ptr<const SlowerLimits> slower);

  // Inserts a state unchanged. Returns false if there is no room.
  bool adopt(const Fingerprint& key, const core::State& state, RestTime rest, Instant now);

  // A text in the state file, for the owner of the table. Has no capacity without a file. Not
  // thread-safe.
  Notes& notes() { return notes_; }

  // Scans every slot.
  MemoryUse use(Instant now) const;

 private:
  // The treatment of a key that is not in the table: leave it out; decide as if it were inserted,
  // but do not insert it; insert it.
  enum class IfMissing { ignore, simulate, insert };
  enum class LockResult { locked, absent, no_room };
  // The state that an item charges. `normal`: the key's own, or by `when_full` if there is no room.
  // The others are for refunds, which go to the state that was charged, if it still exists: the
  // key's own slot or the overflow state.
  enum class Target { normal, own_slot, overflow };
  class LockedPlan;

  explicit Table(Region region);
  static Result<std::unique_ptr<Table>, Error> resized(std::unique_ptr<Table> old,
                                                       const std::string& path,
                                                       const TableLayout& layout, Instant now);
  std::uint64_t restore(Instant now);
  Nanos restore_time(Instant now);
  bool restore_record(Slot& slot);
  std::uint64_t copy_from(const Table& other, Instant now);
  bool adopt_slot(const Table& other, Slot& slot, Instant now);

  Row& first_row(const Fingerprint& key) const noexcept;
  Row& second_row(const Fingerprint& key) const noexcept;
  Slot* find(const Fingerprint& key) const noexcept;

  template <typename L>
  core::Decision take_state(const L& limit, const Item& item, Instant now, core::Receipt* receipt);
  core::Verdict take_single(const Item& item, Instant now, core::Receipt* receipt,
                            std::span<core::Decision> each);
  core::Verdict take_locked(std::span<const Item> items, Instant now, const core::HolderId& holder,
                            std::span<core::Receipt> receipts, std::span<core::Decision> each);

  LockResult lock_slot(const Fingerprint& key, IfMissing if_missing, LockedEntry& entry,
                       Instant& now);
  bool lock_overflow(const Item& item, LockedEntry& overflow, Instant now);
  bool overflow_in_use(const Item& item, Instant now);
  bool copy_overflow(LockedEntry& entry, const Item& item, Instant now);
  bool copy_record(LockedEntry& entry, Record& from, const core::HolderId& among, Instant now);
  bool has_changed(const Fingerprint& key, const core::State& found) noexcept;
  void synchronize(const Fingerprint& key) noexcept;
  LockResult insert(const Fingerprint& key, LockedEntry& entry, Instant& now);
  Slot* place(Row& first, Row& second, const Fingerprint& key, Instant now);
  bool has_room(const Fingerprint& key, Instant now);
  bool has_room_for_record(Instant now, RestTime& free_at);
  RestTime soonest_rest(const Fingerprint& key) const noexcept;
  void forget(const Row::Evicted& vacated);

  bool attach_record(LockedEntry& entry, const core::Limit& limit, IfMissing if_missing,
                     Instant now, const core::HolderId& holder);
  bool make_room(LockedEntry& entry, const core::SlidingLog& limit, Instant now);
  bool make_room(LockedEntry& entry, const core::Concurrency& limit, const core::HolderId& holder,
                 Instant now);
  Record* allocate_record(LockedEntry& entry, std::size_t capacity, std::size_t entry_bytes,
                          Instant now);
  bool grow_record(LockedEntry& entry, std::size_t capacity, std::size_t entry_bytes, Instant now);
  bool reclaim_records(Instant now, RestTime& free_at);
  Record& record_at(Arena::Handle handle) const;
  std::uint32_t index_of(const Slot& slot) const;
  Slot& slot_at(std::uint32_t index) const;

  std::shared_ptr<const SlowerLimits> slower_limits() const;
  void record_time(Instant now) noexcept;

  // Constant after construction.
  Region region_;
  std::span<Row> rows_;
  std::uint64_t row_count_;
  std::uint64_t overflow_row_count_;
  std::uint64_t seed_;
  Instant resumes_at_{};

  // Checked before a slot is evicted. The flag saves the mutex in nearly all cases.
  std::atomic<bool> has_slower_{false};
  mutable std::mutex slower_mutex_;
  std::shared_ptr<const SlowerLimits> slower_;

  // Counts resets; several keys share a counter. Also the synchronization point of threads with the
  // same key: see `synchronize`.
  std::vector<std::atomic<std::uint32_t>> resets_;
  Arena arena_;
  Notes notes_;
  struct {
    std::atomic<std::uint64_t> forgotten{0};
    std::atomic<std::uint64_t> shared{0};
    std::atomic<std::uint64_t> denied{0};
    std::atomic<std::uint64_t> untracked{0};
  } counts_;
};

}  // namespace weir::store
