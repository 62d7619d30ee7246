#pragma once

#include <vector>

#include "core/limit.h"
#include "store/memory/fingerprint.h"

namespace weir::store {

// Limits that have become slower than those they replaced. Slots that were written before say when
// they would have come to rest under the old limit: that is too early, and a slot that changes
// hands too early forgives what its key still owes. A row asks here before it lets a slot go, so
// that no slot has to be visited when a limit changes. Never changes.
class SlowerLimits {
 public:
  // A bucket whose price has risen.
  struct Price {
    std::uint64_t stamp = 0;  // of the states that were written at the old one
    Instant since{};          // when it first rose
    Instant until{};          // no such state would have come to rest later
    double ratio = 1;         // of the highest price since to that of the state, rounded up
  };
  // A limit by another algorithm, whose usage now counts for longer.
  struct Other {
    core::Limit limit;
    Instant since{};
    Instant until{};
  };

  void add(const Price& price);
  void add(Other other) { others_.push_back(std::move(other)); }
  // What still matters at `now`. The earliest rises are dropped if there are too many.
  SlowerLimits at(Instant now) const;
  bool empty() const { return prices_.empty() && others_.empty(); }
  const std::vector<Price>& prices() const { return prices_; }

  // When the key of a slot is at rest that would be by what the slot says. A key of another limit
  // than those above may be kept longer than it must be.
  Instant rest_of(const core::State& state, bool has_record, Instant rest) const;

 private:
  std::vector<Price> prices_;  // by stamp
  std::vector<Other> others_;
};

}  // namespace weir::store
