#include "store/memory/slower_limits.h"

#include <algorithm>

namespace weir::store {

namespace {

constexpr std::size_t kMaxPrices = 4096;

bool comes_before(const SlowerLimits::PriceRise& a, const SlowerLimits::PriceRise& b) {
  return a.stamp < b.stamp;
}

// The rest time of a key under `limit`, which has applied to it since `then`.
Instant rest_under(const core::Limit& limit, const core::State& state, bool has_record,
                   Instant then) {
  const auto rest = [&](const auto& l) -> Instant {
    using L = std::remove_cvref_t<decltype(l)>;
    // States of NginxQueue hold milliseconds, those of other limits nanoseconds.
    constexpr std::uint64_t in_millis = std::uint64_t{1} << 50;  // as milliseconds: year 37648
    if constexpr (std::is_same_v<L, core::SlidingLog>) {
      return has_record ? later(in_range(then), l.period) : Instant{};
    } else if constexpr (std::is_same_v<L, core::Concurrency> || std::is_same_v<L, core::Bucket>) {
      return {};  // hold times do not change; buckets are handled by prices
    } else {
      if (has_record || state.never_seen()) return {};
      if ((state.when < in_millis) != std::is_same_v<L, core::NginxQueue>) return {};
      return core::rest_at(l, state, then);
    }
  };
  return std::visit(rest, limit);
}

}  // namespace

void SlowerLimits::add(const PriceRise& price) {
  const auto position = std::lower_bound(prices_.begin(), prices_.end(), price, comes_before);
  if (position == prices_.end() || position->stamp != price.stamp) {
    prices_.insert(position, price);
    return;
  }
  position->ratio = std::max(position->ratio, price.ratio);
  position->until = std::max(position->until, price.until);
}

SlowerLimits SlowerLimits::at(Instant now) const {
  SlowerLimits next;
  for (const PriceRise& price : prices_) {
    if (price.until > now) next.prices_.push_back(price);
  }
  for (const LimitChange& other : others_) {
    if (other.until > now) next.others_.push_back(other);
  }
  while (next.prices_.size() > kMaxPrices) {
    next.prices_.erase(std::ranges::min_element(next.prices_, {}, &PriceRise::since));
  }
  return next;
}

Instant SlowerLimits::rest_of(const core::State& state, bool has_record, Instant rest) const {
  Instant latest = rest;
  if (!has_record) {
    const PriceRise sought{.stamp = state.what & core::gcra::kStampMask, .since = Instant::min()};
    const auto price = std::lower_bound(prices_.begin(), prices_.end(), sought, comes_before);
    if (price != prices_.end() && price->stamp == sought.stamp && latest > price->since) {
      const auto left = static_cast<double>(between(price->since, latest).count());
      const double longest = static_cast<double>(core::kLongestDebt.count());
      latest = later(price->since,
                     Nanos{static_cast<std::int64_t>(std::min(left * price->ratio, longest))});
    }
  }
  for (const LimitChange& other : others_) {
    if (rest <= other.since) continue;
    latest = std::max(latest, rest_under(other.limit, state, has_record, other.since));
  }
  return latest;
}

}  // namespace weir::store
