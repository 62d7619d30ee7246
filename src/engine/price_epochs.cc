#include "engine/price_epochs.h"

#include <algorithm>

#include "base/saturating.h"

namespace weir::engine {

namespace {

constexpr std::size_t kMaxEpochs = 1024;

// Stands for an infinite ratio, where nothing drains and a number is needed.
constexpr double kInfiniteRatio = 1e6;

// The ratio of the time of one permit at `next` to that at `old`, rounded up.
double price_ratio(const core::EmissionInterval& next, const core::EmissionInterval& old) {
  if (next.price == old.price && next.parts == old.parts) return 1;
  const auto nanos = [](const core::EmissionInterval& pace) {
    return static_cast<double>(pace.price) / static_cast<double>(pace.parts);
  };
  constexpr double up = 1 + 1e-9;
  return nanos(next) / nanos(old) * up;
}

bool same_prices(const LimitPrices& a, const LimitPrices& b) {
  if (a.size() != b.size()) return false;
  return std::ranges::all_of(a, [&](const LimitPrice& price) {
    const LimitPrice* const other = find_price(b, price.identity);
    return other != nullptr && price.frozen == other->frozen &&
           price_ratio(price.interval, other->interval) == 1;
  });
}

bool same_prices(const PriceLayer* a, const PriceLayer* b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr) return false;
  return a->patterns == b->patterns && a->boosted == b->boosted &&
         std::ranges::equal(a->limits, b->limits,
                            [](const auto& x, const auto& y) { return same_prices(x, y); });
}

// Records the price rises of keys that move from one group to another.
class RiseRecorder {
 public:
  RiseRecorder(const PolicyEpochs& epochs, store::SlowerLimits& slower)
      : epochs_(epochs), slower_(slower), now_(epochs.back()->since) {
    DebtBound debt_bound;
    for (std::size_t i = 0; i + 1 < epochs.size(); ++i) debt_bound.add(epochs[i]->debt_bound);
    until_ = later(now_, debt_bound.longest_debt());
  }

  // States of any earlier epoch, in which the keys of `pattern` had `was`.
  void note(const LimitPrices& next, const policy::Pattern* pattern) {
    for (std::size_t i = 0; i + 1 < epochs_.size(); ++i) {
      const PriceGroups& past = epochs_[i]->prices;
      note(next, pattern != nullptr ? past.limits_for(*pattern) : past.defaults);
    }
  }

  void note(const LimitPrices& next, const LimitPrices& was) {
    for (const LimitPrice& price : next) {
      const LimitPrice* const before = find_price(was, price.identity);
      if (before == nullptr) continue;
      const double ratio =
          price.frozen ? kInfiniteRatio : price_ratio(price.interval, before->interval);
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
          .interval = bucket.interval,
          .capacity = bucket.capacity,
          .stamp = bucket.stamp};
}

const LimitPrice* find_price(const LimitPrices& prices, std::uint64_t identity) {
  const auto found = std::ranges::find(prices, identity, &LimitPrice::identity);
  return found != prices.end() ? &*found : nullptr;
}

bool same_prices(const PriceGroups& a, const PriceGroups& b) {
  return same_prices(a.defaults, b.defaults) && same_prices(a.boosts.get(), b.boosts.get()) &&
         same_prices(a.overrides.get(), b.overrides.get());
}

void DebtBound::add(const DebtBound& other) {
  capacity = std::max(capacity, other.capacity);
  price = std::max(price, other.price);
}

DebtBound DebtBound::of(const PriceGroups& groups) {
  DebtBound debt_bound;
  groups.for_each([&](const policy::Pattern*, const LimitPrices& prices) {
    for (const LimitPrice& each : prices) {
      const Int128 nanos = ceil_div(each.interval.price, each.interval.parts);
      debt_bound.add({each.capacity, Nanos{to_int64(nanos)}});
    }
  });
  return debt_bound;
}

Nanos DebtBound::longest_debt() const {
  constexpr int times = 16;
  constexpr Int128 max_debt = core::kLongestDebt.count();
  const Int128 once = std::min(Int128{capacity} * price.count(), max_debt);
  return Nanos{to_int64(std::min(once * times, max_debt))};
}

PolicyEpochs followed_by(const PolicyEpochs* old, PolicyEpoch next) {
  const Instant now = next.since;
  PolicyEpochs epochs;
  if (old != nullptr) epochs = *old;
  epochs.push_back(std::make_shared<const PolicyEpoch>(std::move(next)));
  DebtBound debt_bound;
  for (const auto& epoch : epochs) debt_bound.add(epoch->debt_bound);
  const auto has_drained = [&](Instant end) {
    return later(end, debt_bound.longest_debt()) <= now;
  };
  std::size_t first = 0;
  while (first + 2 < epochs.size() && has_drained(epochs[first + 1]->since)) ++first;
  if (epochs.size() - first > kMaxEpochs) first = epochs.size() - kMaxEpochs;
  epochs.erase(epochs.begin(), epochs.begin() + static_cast<std::ptrdiff_t>(first));
  return epochs;
}

void note_rises(const PolicyEpochs& epochs, store::SlowerLimits& slower) {
  if (epochs.size() < 2) return;
  const PriceGroups& present = epochs.back()->prices;
  const PriceGroups& before = epochs[epochs.size() - 2]->prices;
  RiseRecorder recorder(epochs, slower);
  present.for_each([&](const policy::Pattern* pattern, const LimitPrices& next) {
    recorder.note(next, pattern);
  });
  // Keys of a group that was removed.
  before.for_each([&](const policy::Pattern* pattern, const LimitPrices& was) {
    if (pattern == nullptr) return;
    recorder.note(present.limits_for(*pattern), was);
    recorder.note(present.limits_for(*pattern), pattern);
  });
}

}  // namespace weir::engine
