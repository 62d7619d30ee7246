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

// One limit's part in a decision, by the fingerprint of its key.
struct Item {
  const core::Limit* limit = nullptr;
  Fingerprint key{};
  Fingerprint sharing{};  // for newcomers to a full table
  core::Ask ask{};
  bool shadow = false;
  WhenFull when_full = WhenFull::share;
  const core::PriceHistory* history = nullptr;  // of the key's bucket
};

struct Claimed;

// What is remembered of all keys under all limits, in memory that never grows: rows of slots, two
// rows for each key, and records for limits that need more than a state. See slot.h for how takes
// and changes of ownership get along.
//
// A newcomer gets a slot that is empty or at rest. If both its rows are full of live keys, the
// item's `when_full` decides; a live key is never dropped. Newcomers that share are charged to the
// overflow state of their limit. As long as that is not at rest, it is what newcomers that do get
// a slot begin with: their earlier calls may be in it. (Others pay for that with permits that they
// do not get; nobody gets any twice.) A flood of keys cannot aim at a row,
// since it does not know the seed.
//
// Several items are decided together: their states are locked in the order of their keys, so that
// nobody waits in a circle, decided on copies, and written back or left alone. A single item whose
// whole memory is a state needs no lock.
//
// Thread-safe: every member, from any thread. Time is an argument.
class Table {
 public:
  // In the memory of this process. Throws std::bad_alloc.
  explicit Table(const Layout& layout);

  // As the options say; a state file is opened or made. What was found is told in `opened`. A file
  // of another size is copied without what is at rest, which may need to know the limits that have
  // become slower: `read_slower` finds them in the notes.
  using ReadSlower = std::function<std::shared_ptr<const SlowerLimits>(std::string_view notes)>;
  static Result<std::unique_ptr<Table>, Error> open(const MemoryOptions& options, Instant now,
                                                    Opened& opened,
                                                    const ReadSlower& read_slower = {});

  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  std::uint64_t seed() const { return seed_; }
  // How far the clock had come when a state file was last used; time must not start before.
  Instant resumes_at() const { return resumes_at_; }

  // As core::take, on what is remembered. At most core::kMaxLimits items, of different keys.
  // `each` is told what each limit said, if it has room for them.
  core::Verdict take(std::span<const Item> items, Instant now, const core::HolderId& holder = {},
                     std::span<core::Receipt> receipts = {}, std::span<core::Decision> each = {});
  core::Verdict peek(std::span<const Item> items, Instant now, const core::HolderId& holder = {},
                     std::span<core::Decision> each = {});
  // What is given back goes to the state that was charged: that of the key, or that which newcomers
  // share. Receipts from before a reset of their key are worth nothing: `resets` is what
  // `resets_of` said before each take. (None: there was no reset.)
  core::Verdict settle(std::span<const Item> items, Instant now, std::span<core::Receipt> receipts,
                       std::span<const std::uint32_t> resets = {},
                       std::span<core::Decision> each = {});
  std::uint32_t resets_of(const Fingerprint& key) const noexcept;
  bool leave(std::span<const Item> items, Instant now, const core::HolderId& holder);
  void reset(std::span<const Item> items, Instant now);

  // One item, if its limit is a bucket: what most calls are.
  core::Decision take_bucket(const core::Bucket& limit, const Item& item, Instant now,
                             core::Receipt* receipt = nullptr);

  // Fetches what a take of the key will look at, while others are decided.
  void prefetch(const Fingerprint& key) const noexcept;

  // Limits have become slower: slots of theirs stay longer than they say themselves. Replaces what
  // was told before.
  void set_slower(std::shared_ptr<const SlowerLimits> slower);

  // Remembers a state as it is. False if there is no room.
  bool adopt(const Fingerprint& key, const core::State& state, RestTime rest, Instant now);

  // A text that lies in the state file, for the owner of the table. None without a file. Not
  // thread-safe.
  Notes& notes() { return notes_; }

  // Looks at every slot.
  MemoryUse use(Instant now) const;

 private:
  // What becomes of a key that is not there: nothing; or it is decided as if it came now, and is
  // still not there; or it comes.
  enum class Absent { stays, would_come, is_inserted };
  enum class Claim { got, nothing, no_room };
  // What a decision is about: the key's own state, or what `when_full` says if there is no room;
  // for corrections of what was taken, the one that was charged, if it is still remembered.
  enum class Place { usual, own, shared };
  class Claims;

  explicit Table(Region region);
  static Result<std::unique_ptr<Table>, Error> resized(std::unique_ptr<Table> old,
                                                       const std::string& path,
                                                       const Layout& layout, Instant now);
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
  core::Verdict take_alone(const Item& item, Instant now, core::Receipt* receipt,
                           std::span<core::Decision> each);
  core::Verdict take_claimed(std::span<const Item> items, Instant now, const core::HolderId& holder,
                             std::span<core::Receipt> receipts, std::span<core::Decision> each);

  Claim claim(const Fingerprint& key, Absent absent, Claimed& claimed, Instant& now);
  bool claim_overflow(const Item& item, Claimed& overflow, Instant now);
  bool overflow_in_use(const Item& item, Instant now);
  bool copy_overflow(Claimed& claimed, const Item& item, Instant now);
  bool copy_record(Claimed& claimed, Record& from, const core::HolderId& among, Instant now);
  bool has_changed(const Fingerprint& key, const core::State& found) noexcept;
  void synchronize(const Fingerprint& key) noexcept;
  Claim insert(const Fingerprint& key, Claimed& claimed, Instant& now);
  Slot* settle(Row& first, Row& second, const Fingerprint& key, Instant now);
  bool has_room(const Fingerprint& key, Instant now);
  bool has_room_for_record(Instant now, RestTime& free_at);
  RestTime soonest_rest(const Fingerprint& key) const noexcept;
  void forget(const Row::Vacated& vacated);

  bool attach_record(Claimed& claimed, const core::Limit& limit, Absent absent, Instant now,
                     const core::HolderId& holder);
  bool make_room(Claimed& claimed, const core::ExactLog& limit, Instant now);
  bool make_room(Claimed& claimed, const core::Concurrency& limit, const core::HolderId& holder,
                 Instant now);
  Record* allocate_record(Claimed& claimed, std::size_t capacity, std::size_t entry_bytes,
                          Instant now);
  bool grow_record(Claimed& claimed, std::size_t capacity, std::size_t entry_bytes, Instant now);
  bool reclaim_records(Instant now, RestTime& free_at);
  Record& record_at(Arena::Handle handle) const;
  std::uint32_t index_of(const Slot& slot) const;
  Slot& slot_at(std::uint32_t index) const;

  std::shared_ptr<const SlowerLimits> slower_limits() const;
  void keep_time(Instant now) noexcept;

  // Constant after construction.
  Region region_;
  std::span<Row> rows_;
  std::uint64_t row_count_;
  std::uint64_t sharing_count_;
  std::uint64_t seed_;
  Instant resumes_at_{};

  // What rows ask before a slot changes hands. The flag spares nearly all calls the lock.
  std::atomic<bool> has_slower_{false};
  mutable std::mutex slower_mutex_;
  std::shared_ptr<const SlowerLimits> slower_;

  // How often keys were reset, of those that share a counter. (Also where threads with the same key
  // meet: see `synchronize`.)
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
