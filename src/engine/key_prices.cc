#include "engine/key_prices.h"

#include <algorithm>

namespace weir::engine {

std::size_t KeyPrices::size() const {
  return (policy_.past != nullptr ? policy_.past->size() : 0) + 1;
}

std::optional<core::PriceEpoch> KeyPrices::epoch(std::size_t i) const {
  const bool is_past = i + 1 < size();
  const PolicyEpoch* const past = is_past ? (*policy_.past)[i].get() : nullptr;
  const LimitGroups& groups = is_past ? past->groups : policy_;
  const std::vector<Rule>& rules = groups.rules_for(subject_).rules;
  const auto rule = std::ranges::find(rules, identity_, &Rule::identity);
  if (rule == rules.end()) return std::nullopt;
  const auto* bucket = std::get_if<core::Bucket>(&rule->limit);
  if (bucket == nullptr) return std::nullopt;
  return core::PriceEpoch{.number = is_past ? past->number : policy_.epoch,
                          .since = is_past ? past->since : policy_.since,
                          .pace = bucket->pace};
}

}  // namespace weir::engine
