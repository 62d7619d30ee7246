#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/fixed_vector.h"
#include "core/plan.h"
#include "store/lease/purses.h"
#include "store/memory/table.h"

namespace weir::engine {

// The limits of a call whose permits are borrowed ahead of need, and the purses they are in.
class LentSide {
 public:
  using Standing = store::lease::Purse::Standing;
  using Purse = store::lease::Purse;
  using Purses = store::lease::Purses;

  struct Item {
    const core::Limit* limit = nullptr;
    store::Fingerprint key{};
    Permits cost = 0;
    bool shadow = false;
    std::size_t position = 0;  // in the policy
    Purse* purse = nullptr;
    Standing standing = Standing::covered;
    std::uint64_t mark = 0;  // of the purse, from before it was paid from
  };

  void clear() { items_.clear(); }
  void add(const store::Item& item, std::size_t position);
  bool empty() const { return items_.empty(); }
  std::span<const Item> items() const { return items_; }

  // What there is for the call. A shadow that is refused does not keep it from being covered.
  Standing look(Purses& purses, Instant now);
  // All verdicts are over the policy.

  // Pays, when covered.
  core::Verdict spend(Purses& purses, Instant now);
  // When refused, or when it is not to be asked any more.
  core::Verdict refuse(Purses& purses, Instant now);
  // After corrections.
  core::Verdict settled(Purses& purses, Instant now);
  // After it was paid for a call that is refused by others.
  void give_back(Purses& purses) const;

  bool is_shadow() const;

 private:
  core::Verdict verdict(Instant now) const;

  FixedVector<Item, core::kMaxLimits> items_;
};

}  // namespace weir::engine
