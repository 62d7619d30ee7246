#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/fixed_vector.h"
#include "core/plan.h"
#include "store/lease/lease_cache.h"
#include "store/memory/table.h"

namespace weir::engine {

// The leased limits of one call, and their leases in the cache. All verdicts are over the policy.
// Not thread-safe: belongs to the thread that owns the link.
class LeasedLimits {
 public:
  using Coverage = store::lease::KeyLease::Coverage;
  using KeyLease = store::lease::KeyLease;
  using LeaseCache = store::lease::LeaseCache;

  struct LeasedItem {
    const core::Limit* limit = nullptr;
    store::Fingerprint key{};
    Permits cost = 0;
    bool shadow = false;
    std::size_t position = 0;  // in the policy
    KeyLease* lease = nullptr;
    Coverage coverage = Coverage::covered;
    std::uint64_t mark = 0;  // of the lease, before permits were taken from it
  };

  void clear() { items_.clear(); }
  void add(const store::Item& item, std::size_t position);
  bool empty() const { return items_.empty(); }
  std::span<const LeasedItem> items() const { return items_; }

  // Looks up the leases and tells whether they cover the call. A shadow limit that refuses does not
  // keep the call from being covered.
  Coverage check(LeaseCache& cache, Instant now);

  // Takes the permits. Only when the call is covered.
  core::Verdict spend(LeaseCache& cache, Instant now);
  // Counts the refusal. When refused, or when the store is not to be asked again.
  core::Verdict refuse(LeaseCache& cache, Instant now);
  // The verdict after a settle.
  core::Verdict after_settle(LeaseCache& cache, Instant now);
  // Returns the permits to the leases when another limit refuses the call.
  void give_back(LeaseCache& cache) const;

  bool is_shadow() const;

 private:
  core::Verdict verdict(Instant now) const;

  FixedVector<LeasedItem, core::kMaxLimits> items_;
};

}  // namespace weir::engine
