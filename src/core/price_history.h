#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/bucket.h"

namespace weir::core {

// A period in which a bucket had one price.
struct PriceEpoch {
  EpochNumber number = 0;  // as encoded in states
  Instant since{};
  EmissionInterval interval{};
  bool frozen = false;  // nothing drained in this epoch
};

// The sequence of prices of one key's bucket.
//
// A state names the epoch in which it was last written. Since then, the debt has drained at the
// price of each following epoch in turn. So the conversion to the present price is exact for any
// number of changes, even if the key was not used in between.
class PriceHistory {
 public:
  virtual ~PriceHistory() = default;
  virtual std::size_t size() const = 0;
  // Oldest first; the last one is the present epoch. Nothing: the key had no such limit then.
  virtual std::optional<PriceEpoch> epoch(std::size_t i) const = 0;
  // The exact price of a stamp, if it is known. A call that was planned before a change may find a
  // state that was written after it.
  virtual std::optional<EmissionInterval> pace_of(std::uint64_t /*stamp*/) const {
    return std::nullopt;
  }
};

// Converts a state of another epoch to the price of `limit`. A state of an unknown epoch keeps its
// own price until the first known epoch, or until `now` if there is no history.
State state_of_other_epoch(const Bucket& limit, const State& state, Instant now,
                           const PriceHistory* history);

inline State state_under_current_limit(const Bucket& limit, const State& state, Instant now,
                                       const PriceHistory* history) {
  if ((state.what & gcra::kStampMask) == limit.stamp || state.never_seen()) [[likely]]
    return state;
  return state_of_other_epoch(limit, state, now, history);
}

// The identity, for limits whose states do not depend on a price.
template <typename L>
State state_under_current_limit(const L&, const State& state, Instant, const PriceHistory*) {
  return state;
}

// Converts a receipt to the price of `limit`. After a change of price it is valid only for the
// whole of what was taken, and only while the key has not changed since.
Receipt receipt_under_current_limit(const Bucket& limit, const Receipt& receipt, Instant now,
                                    const PriceHistory* history);

// A state of a shared store, with the time and the price of its last write: nodes may learn of a
// price change at different times.
struct DatedState {
  State state{};                // its stamp is ignored
  EmissionInterval interval{};  // its price, and the unit of the parts of its tat
  Instant written{};            // by the clock of PriceEpoch::since, in whole microseconds
};
State state_under_current_limit(const Bucket& limit, const DatedState& found, Instant now,
                                const PriceHistory* history);
// The start of the present epoch; the zero instant if the price has never changed.
Instant present_since(const PriceHistory* history);

// The price history of a limit that changes for all keys at the same time.
class PriceTimeline final : public PriceHistory {
 public:
  // Records the change from `old` to `next` at `now`, and returns `next` in its epoch.
  Bucket change(Bucket next, const Bucket& old, Instant now);

  std::size_t size() const override { return epochs_.size(); }
  std::optional<PriceEpoch> epoch(std::size_t i) const override { return epochs_[i]; }

 private:
  friend std::shared_ptr<const PriceHistory> copy_of(const PriceHistory* history);
  std::vector<PriceEpoch> epochs_;
};

// A copy of a history that owns all of its data; null for null.
std::shared_ptr<const PriceHistory> copy_of(const PriceHistory* history);

}  // namespace weir::core
