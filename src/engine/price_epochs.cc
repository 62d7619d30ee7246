#include "engine/price_epochs.h"

#include <algorithm>

#include "base/saturating.h"

namespace weir::engine {

namespace {

constexpr std::size_t kMostEpochs = 1024;

// How many times as long a permit takes while nothing drains, for who has to name a number.
constexpr double kStill = 1e6;

// How much longer a permit takes at `next`, rounded up.
double price_ratio(const core::Pace& next, const core::Pace& old) {
  if (next.price == old.price && next.parts == old.parts) return 1;
  const auto nanos = [](const core::Pace& pace) {
    return static_cast<double>(pace.price) / static_cast<double>(pace.parts);
  };
  constexpr double up = 1 + 1e-9;
  return nanos(next) / nanos(old) * up;
}

bool same_prices(const LimitPrices& a, const LimitPrices& b) {
  if (a.size() != b.size()) return false;
  return std::ranges::all_of(a, [&](const LimitPrice& price) {
    const LimitPrice* const other = find_price(b, price.identity);
    return other != nullptr && price.still == other->still &&
           price_ratio(price.pace, other->pace) == 1;
  });
}

bool same_prices(const PriceLayer* a, const PriceLayer* b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr) return false;
  return a->patterns == b->patterns && a->boosted == b->boosted &&
         std::ranges::equal(a->limits, b->limits,
                            [](const auto& x, const auto& y) { return same_prices(x, y); });
}

// The prices of keys that go from one group to another.
class Rises {
 public:
  Rises(const PolicyEpochs& epochs, store::SlowerLimits& slower)
      : epochs_(epochs), slower_(slower), now_(epochs.back()->since) {
    Extent extent;
    for (std::size_t i = 0; i + 1 < epochs.size(); ++i) extent.add(epochs[i]->extent);
    until_ = later(now_, extent.longest_debt());
  }

  // States that were written in any earlier epoch, where that is what the keys of `pattern` had.
  void note(const LimitPrices& next, const policy::Pattern* pattern) {
    for (std::size_t i = 0; i + 1 < epochs_.size(); ++i) {
      const PriceGroups& past = epochs_[i]->prices;
      note(next, pattern != nullptr ? past.limits_for(*pattern) : past.usual);
    }
  }

  void note(const LimitPrices& next, const LimitPrices& was) {
    for (const LimitPrice& price : next) {
      const LimitPrice* const before = find_price(was, price.identity);
      if (before == nullptr) continue;
      const double ratio = price.still ? kStill : price_ratio(price.pace, before->pace);
      if (ratio <= 1) continue;
      slower_.add({.stamp = before->stamp, .since = now_, .until = until_, .ratio = ratio});
    }
  }

 private:
  const PolicyEpochs& epochs_;
  store::SlowerLimits& slower_;
  Instant now_;
  Instant until_;
};

}  // namespace

LimitPrice LimitPrice::of(std::uint64_t identity, const core::Bucket& bucket) {
  return {.identity = identity,
          .pace = bucket.pace,
          .capacity = bucket.capacity,
          .stamp = bucket.stamp};
}

const LimitPrice* find_price(const LimitPrices& prices, std::uint64_t identity) {
  const auto found = std::ranges::find(prices, identity, &LimitPrice::identity);
  return found != prices.end() ? &*found : nullptr;
}

bool same_prices(const PriceGroups& a, const PriceGroups& b) {
  return same_prices(a.usual, b.usual) && same_prices(a.boosts.get(), b.boosts.get()) &&
         same_prices(a.overrides.get(), b.overrides.get());
}

void Extent::add(const Extent& other) {
  capacity = std::max(capacity, other.capacity);
  price = std::max(price, other.price);
}

Extent Extent::of(const PriceGroups& groups) {
  Extent extent;
  groups.for_each([&](const policy::Pattern*, const LimitPrices& prices) {
    for (const LimitPrice& each : prices) {
      const Int128 nanos = ceil_div(each.pace.price, each.pace.parts);
      extent.add({each.capacity, Nanos{to_int64(nanos)}});
    }
  });
  return extent;
}

Nanos Extent::longest_debt() const {
  constexpr int times = 16;
  constexpr Int128 most = core::kLongestDebt.count();
  const Int128 once = std::min(Int128{capacity} * price.count(), most);
  return Nanos{to_int64(std::min(once * times, most))};
}

PolicyEpochs followed_by(const PolicyEpochs* old, PolicyEpoch next) {
  const Instant now = next.since;
  PolicyEpochs epochs;
  if (old != nullptr) epochs = *old;
  epochs.push_back(std::make_shared<const PolicyEpoch>(std::move(next)));
  Extent extent;
  for (const auto& epoch : epochs) extent.add(epoch->extent);
  const auto has_drained = [&](Instant end) { return later(end, extent.longest_debt()) <= now; };
  std::size_t first = 0;
  while (first + 2 < epochs.size() && has_drained(epochs[first + 1]->since)) ++first;
  if (epochs.size() - first > kMostEpochs) first = epochs.size() - kMostEpochs;
  epochs.erase(epochs.begin(), epochs.begin() + static_cast<std::ptrdiff_t>(first));
  return epochs;
}

void note_rises(const PolicyEpochs& epochs, store::SlowerLimits& slower) {
  if (epochs.size() < 2) return;
  const PriceGroups& present = epochs.back()->prices;
  const PriceGroups& before = epochs[epochs.size() - 2]->prices;
  Rises rises(epochs, slower);
  present.for_each(
      [&](const policy::Pattern* pattern, const LimitPrices& next) { rises.note(next, pattern); });
  // Keys of a group that is no more.
  before.for_each([&](const policy::Pattern* pattern, const LimitPrices& was) {
    if (pattern == nullptr) return;
    rises.note(present.limits_for(*pattern), was);
    rises.note(present.limits_for(*pattern), pattern);
  });
}

}  // namespace weir::engine
