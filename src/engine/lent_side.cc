#include "engine/lent_side.h"

#include <algorithm>

#include "engine/plan.h"

namespace weir::engine {

namespace {

core::Decision decision_of(const LentSide::Item& item, Instant now) {
  const Permits capacity = core::capacity(*item.limit);
  if (item.cost > capacity) {
    return {.outcome = Outcome::impossible, .limit = capacity, .retry_after = kNever};
  }
  if (item.standing == LentSide::Standing::covered) {
    return item.purse != nullptr ? item.purse->admission(*item.limit, now)
                                 : core::Decision{.limit = capacity};
  }
  core::Decision refused{.outcome = Outcome::limited, .limit = capacity};
  if (item.purse != nullptr) refused = item.purse->refusal(*item.limit, now);
  // (Who was too slow for others again and again: nobody knows when it would not be.)
  if (item.standing == LentSide::Standing::lacking) {
    refused.retry_after = std::max(refused.retry_after, store::lease::kHoldOff);
  }
  return refused;
}

}  // namespace

void LentSide::add(const store::Item& item, std::size_t position) {
  items_.emplace_back(Item{.limit = item.limit,
                           .key = item.key,
                           .cost = item.ask.cost,
                           .shadow = item.shadow,
                           .position = position});
}

LentSide::Standing LentSide::look(Purses& purses, Instant now) {
  bool lacks = false;
  bool refuses = false;
  for (Item& item : items_) {
    item.purse = purses.find(item.key);
    if (item.cost == 0) {
      item.standing = Standing::covered;
    } else if (item.cost > core::capacity(*item.limit)) {
      item.standing = Standing::refused;
    } else {
      item.standing =
          item.purse != nullptr ? item.purse->standing(item.cost, now) : Standing::lacking;
    }
    lacks |= item.standing == Standing::lacking;
    refuses |= item.standing == Standing::refused && !item.shadow;
  }
  if (refuses) return Standing::refused;
  return lacks ? Standing::lacking : Standing::covered;
}

core::Verdict LentSide::spend(Purses& purses, Instant now) {
  for (Item& item : items_) {
    if (item.purse == nullptr || item.cost == 0) continue;
    if (item.standing == Standing::covered) {
      item.mark = Purses::mark(*item.purse);
      purses.spend(*item.purse, *item.limit, item.cost, now);
    } else {
      purses.refuse(*item.purse, item.cost);
    }
  }
  return verdict(now);
}

core::Verdict LentSide::refuse(Purses& purses, Instant now) {
  for (const Item& item : items_) {
    if (item.purse != nullptr) purses.refuse(*item.purse, item.cost);
  }
  return verdict(now);
}

core::Verdict LentSide::settled(Purses& purses, Instant now) {
  for (Item& item : items_) {
    item.purse = purses.find(item.key);
    item.cost = 0;
  }
  return verdict(now);
}

void LentSide::give_back(Purses& purses) const {
  for (const Item& item : items_) {
    if (item.standing == Standing::covered && item.cost > 0) {
      purses.settle({*item.limit}, item.key, {}, -item.cost, item.mark);
    }
  }
}

core::Verdict LentSide::verdict(Instant now) const {
  FixedVector<core::Decision, core::kMaxLimits> decisions;
  FixedVector<core::Charge, core::kMaxLimits> charges;
  FixedVector<std::size_t, core::kMaxLimits> positions;
  for (const Item& item : items_) {
    decisions.emplace_back(decision_of(item, now));
    charges.emplace_back(core::Charge{.shadow = item.shadow});
    positions.emplace_back(item.position);
  }
  return placed(core::judge(decisions, charges), positions);
}

bool LentSide::is_shadow() const { return std::ranges::all_of(items_, &Item::shadow); }

}  // namespace weir::engine
