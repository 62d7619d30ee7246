#pragma once

#include <vector>

#include "core/limit.h"
#include "store/memory/fingerprint.h"

namespace weir::store {

// Limits that have become slower than those they replaced. Slots that were written before the
// change have the rest time of the old limit, which is too early: evicting them then would forgive
// debt. A row asks this object before it evicts a slot, so that no slot has to be visited when a
// limit changes. Immutable while it is in use by a table.
class SlowerLimits {
 public:
  // A bucket whose price has risen.
  struct PriceRise {
    std::uint64_t stamp = 0;  // of the states that were written at the old price
    Instant since{};          // the first rise
    Instant until{};          // the latest rest time of such a state
    double ratio = 1;         // the highest price since then divided by the old one, rounded up
  };
  // A changed limit by another algorithm, under which usage now counts for longer.
  struct LimitChange {
    core::Limit limit;
    Instant since{};
    Instant until{};
  };

  void add(const PriceRise& price);
  void add(LimitChange other) { others_.push_back(std::move(other)); }
  // The entries that are still relevant at `now`. Drops the earliest price rises if there are too
  // many.
  SlowerLimits at(Instant now) const;
  bool empty() const { return prices_.empty() && others_.empty(); }
  const std::vector<PriceRise>& prices() const { return prices_; }

  // The actual rest time of a slot whose own rest time is `rest`. Never too early; may be too late
  // for keys of other limits.
  Instant rest_of(const core::State& state, bool has_record, Instant rest) const;

 private:
  std::vector<PriceRise> prices_;  // by stamp
  std::vector<LimitChange> others_;
};

}  // namespace weir::store
