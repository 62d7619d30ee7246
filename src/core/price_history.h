#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/bucket.h"

namespace weir::core {

// A price that a bucket had from an instant on.
struct PriceEpoch {
  EpochNumber number = 0;  // by which states name it
  Instant since{};
  Pace pace{};
  bool still = false;  // nothing drained at all
};

// The prices that the bucket of one key has had.
//
// A state names the epoch it was last written in. Between then and now the debt drained at the
// price of each epoch in turn, so `carried` is exact for any number of changes, also for a key that
// nobody has looked at meanwhile.
class PriceHistory {
 public:
  virtual ~PriceHistory() = default;
  virtual std::size_t size() const = 0;
  // Oldest first; the last one is the present epoch. None: the key had no such limit then.
  virtual std::optional<PriceEpoch> epoch(std::size_t i) const = 0;
  // The price that a stamp stands for, exactly, if it is known: a call that was planned before a
  // change may find a state that was written after it.
  virtual std::optional<Pace> pace_of(std::uint64_t /*stamp*/) const { return std::nullopt; }
};

// The state under `limit`, whichever epoch of the history it was written in. A state of an unknown
// epoch keeps its own price up to the first known one, or up to `now` if there is no history.
State carried_slowly(const Bucket& limit, const State& state, Instant now,
                     const PriceHistory* history);

inline State carried(const Bucket& limit, const State& state, Instant now,
                     const PriceHistory* history) {
  if ((state.what & gcra::kStampMask) == limit.stamp || state.never_seen()) [[likely]]
    return state;
  return carried_slowly(limit, state, now, history);
}

// The same for limits whose states do not depend on their numbers.
template <typename L>
State carried(const L&, const State& state, Instant, const PriceHistory*) {
  return state;
}

// A receipt as if it had been given under `limit`. After a change of price it is good only for the
// whole of what was taken, and only while nothing else has happened to the key.
Receipt carried(const Bucket& limit, const Receipt& receipt, Instant now,
                const PriceHistory* history);

// A state of a store in which every state tells when it was last written and at which price: nodes
// that share it may know of a change at different times.
struct DatedState {
  State state{};      // its stamp counts for nothing
  Pace pace{};        // in which the parts of its tat are counted, and its price
  Instant written{};  // by the clock of the history, in whole microseconds
};
State carried(const Bucket& limit, const DatedState& found, Instant now,
              const PriceHistory* history);
// Since when the present price holds; the first instant if it has never changed.
Instant present_since(const PriceHistory* history);

// The history of a limit that changes for all keys alike.
class PriceTimeline final : public PriceHistory {
 public:
  // `next`, as the limit that `old` becomes at `now`.
  Bucket change(Bucket next, const Bucket& old, Instant now);

  std::size_t size() const override { return epochs_.size(); }
  std::optional<PriceEpoch> epoch(std::size_t i) const override { return epochs_[i]; }

 private:
  friend std::shared_ptr<const PriceHistory> copy_of(const PriceHistory* history);
  std::vector<PriceEpoch> epochs_;
};

// A history that borrows nothing. None of none.
std::shared_ptr<const PriceHistory> copy_of(const PriceHistory* history);

}  // namespace weir::core
