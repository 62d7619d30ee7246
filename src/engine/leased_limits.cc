#include "engine/leased_limits.h"

#include <algorithm>

#include "engine/plan.h"

namespace weir::engine {

namespace {

core::Decision decision_of(const LeasedLimits::LeasedItem& item, Instant now) {
  const Permits capacity = core::capacity(*item.limit);
  if (item.cost > capacity) {
    return {.outcome = Outcome::impossible, .limit = capacity, .retry_after = kNever};
  }
  if (item.coverage == LeasedLimits::Coverage::covered) {
    return item.lease != nullptr ? item.lease->admission(*item.limit, now)
                                 : core::Decision{.limit = capacity};
  }
  core::Decision refused{.outcome = Outcome::limited, .limit = capacity};
  if (item.lease != nullptr) refused = item.lease->refusal(*item.limit, now);
  // The call lost its permits to other calls several times: there is no better estimate of when it
  // would pass.
  if (item.coverage == LeasedLimits::Coverage::lacking) {
    refused.retry_after = std::max(refused.retry_after, store::lease::kHoldOff);
  }
  return refused;
}

}  // namespace

void LeasedLimits::add(const store::Item& item, std::size_t position) {
  items_.emplace_back(LeasedItem{.limit = item.limit,
                                 .key = item.key,
                                 .cost = item.ask.cost,
                                 .shadow = item.shadow,
                                 .position = position});
}

LeasedLimits::Coverage LeasedLimits::check(LeaseCache& cache, Instant now) {
  bool lacks = false;
  bool refuses = false;
  for (LeasedItem& item : items_) {
    item.lease = cache.find(item.key);
    if (item.cost == 0) {
      item.coverage = Coverage::covered;
    } else if (item.cost > core::capacity(*item.limit)) {
      item.coverage = Coverage::refused;
    } else {
      item.coverage =
          item.lease != nullptr ? item.lease->coverage(item.cost, now) : Coverage::lacking;
    }
    lacks |= item.coverage == Coverage::lacking;
    refuses |= item.coverage == Coverage::refused && !item.shadow;
  }
  if (refuses) return Coverage::refused;
  return lacks ? Coverage::lacking : Coverage::covered;
}

core::Verdict LeasedLimits::spend(LeaseCache& cache, Instant now) {
  for (LeasedItem& item : items_) {
    if (item.lease == nullptr || item.cost == 0) continue;
    if (item.coverage == Coverage::covered) {
      item.mark = LeaseCache::mark(*item.lease);
      cache.spend(*item.lease, *item.limit, item.cost, now);
    } else {
      cache.refuse(*item.lease, item.cost);
    }
  }
  return verdict(now);
}

core::Verdict LeasedLimits::refuse(LeaseCache& cache, Instant now) {
  for (const LeasedItem& item : items_) {
    if (item.lease != nullptr) cache.refuse(*item.lease, item.cost);
  }
  return verdict(now);
}

core::Verdict LeasedLimits::after_settle(LeaseCache& cache, Instant now) {
  for (LeasedItem& item : items_) {
    item.lease = cache.find(item.key);
    item.cost = 0;
  }
  return verdict(now);
}

void LeasedLimits::give_back(LeaseCache& cache) const {
  for (const LeasedItem& item : items_) {
    if (item.coverage == Coverage::covered && item.cost > 0) {
      cache.settle({*item.limit}, item.key, {}, -item.cost, item.mark);
    }
  }
}

core::Verdict LeasedLimits::verdict(Instant now) const {
  FixedVector<core::Decision, core::kMaxLimits> decisions;
  FixedVector<core::Charge, core::kMaxLimits> charges;
  FixedVector<std::size_t, core::kMaxLimits> positions;
  for (const LeasedItem& item : items_) {
    decisions.emplace_back(decision_of(item, now));
    charges.emplace_back(core::Charge{.shadow = item.shadow});
    positions.emplace_back(item.position);
  }
  return at_policy_positions(core::judge(decisions, charges), positions);
}

bool LeasedLimits::is_shadow() const { return std::ranges::all_of(items_, &LeasedItem::shadow); }

}  // namespace weir::engine
