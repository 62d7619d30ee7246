#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/fixed_vector.h"
#include "base/time.h"
#include "store/shared_store.h"

namespace weir::store::redis {

// A cache of recent denials of takes, of a fixed size: a client that keeps hitting a limit causes
// no load on the server. Not thread-safe: each link has one.
//
// An entry lives for 100 ms at most, and never beyond its retry_after. It matches a take with the
// same keys, limits, cost and max_wait; its durations are reduced by the time since. (A higher cost
// would be denied as well, but its retry time and its tightest limit are not known.) Limits are
// compared by their parameters, so that a raised limit takes effect at once. A refund by another
// link takes effect when the entry expires.
//
// Never cached: takes with concurrency limits, where a leave can end a denial at any time; with
// shadow limits, whose counts change with each call; and those that can never pass, because they
// have no retry time.
class DenialCache {
 public:
  // The seed is secret: without it a client could choose keys that evict each other's entries.
  explicit DenialCache(std::uint64_t seed, std::size_t size = 1024);

  // True if the cache denies the request; then it fills in `response`.
  bool lookup(const StoreRequest& request, Nanos now, StoreResponse& response) const;
  // To be called with every response; stores denials.
  void insert(const StoreRequest& request, const StoreResponse& response, Nanos now);
  // To be called with every request: drops denials that it may end, such as a settle or a reset.
  void invalidate(const StoreRequest& request);
  // The connection was lost: the server may have lost its state.
  void invalidate_all() { invalidated_before_ = last_number_; }

 private:
  // Identifies a limit: its kind and its numbers. Owns the calendar, so that no other one can get
  // its address.
  struct LimitParameters {
    std::array<std::int64_t, 8> numbers{};
    std::shared_ptr<const core::Calendar> calendar{};
    friend bool operator==(const LimitParameters&, const LimitParameters&) = default;
  };
  struct DeniedItem {
    std::string key{};
    LimitParameters parameters{};
    core::Ask ask{};
    core::Decision decision{};
  };
  struct CachedDenial {
    std::vector<DeniedItem> parts{};
    std::size_t count = 0;  // number of parts in use
    core::Verdict verdict{};
    Instant store_time{};
    Nanos at{};
    std::uint64_t number = 0;  // sequence number, to tell older entries from newer ones
  };

  static LimitParameters parameters_of(const core::Limit& limit);
  static bool is_cacheable(const StoreRequest& request);
  std::uint64_t hash_of(std::string_view key) const;
  std::uint64_t hash_of(const core::Ask& ask) const;
  std::size_t index_of(const StoreRequest& request) const;
  bool matches(const CachedDenial& entry, const StoreRequest& request) const;
  bool is_invalidated(const CachedDenial& entry) const;

  const std::uint64_t seed_;
  std::vector<CachedDenial> entries_;  // a hash table of a power of two entries, without chains
  // Expiry of each entry. A separate array stays in the processor's cache: most lookups find an
  // expired entry, and read no more.
  std::vector<Nanos> until_;
  Nanos last_until_ = Nanos::min();  // the latest expiry of all
  // By the hash of a key: entries about the key up to this number are invalid. A hash collision
  // invalidates too much, which is harmless.
  std::vector<std::uint64_t> invalidated_;
  std::uint64_t last_number_ = 0;
  std::uint64_t invalidated_before_ = 0;  // entries up to this number are invalid
};

}  // namespace weir::store::redis
