#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "policy/overrides.h"

namespace weir::engine {

// Keys with limits of their own, and `Limits` for each pattern of keys. Immutable.
template <typename Limits>
struct KeyLayer {
  policy::PatternIndex index;
  std::vector<policy::Pattern> patterns;
  std::vector<Limits> limits;  // by position
  // Of boosts, by position: the override whose limits are boosted, or kDefaults.
  std::vector<std::size_t> boosted{};

  static constexpr std::size_t kDefaults = SIZE_MAX;

  std::size_t find(const policy::Subject& subject) const {
    return index.find(subject).value_or(kDefaults);
  }
};

// `Limits` for each group of keys of a policy. A boost comes before an override, and an override
// before the defaults. Most policies have defaults only.
template <typename Limits>
struct KeyGroups {
  using Layer = KeyLayer<Limits>;

  Limits defaults;
  std::shared_ptr<const Layer> boosts{};
  std::shared_ptr<const Layer> overrides{};

  const Limits& limits_for(const policy::Subject& subject) const {
    if (overrides == nullptr && boosts == nullptr) [[likely]]
      return defaults;
    constexpr std::size_t none = Layer::kDefaults;
    const std::size_t own = overrides != nullptr ? overrides->find(subject) : none;
    const std::size_t boost = boosts != nullptr ? boosts->find(subject) : none;
    // A request of several parts may match an override by one part and a boost of other limits by
    // another. Then the override wins.
    if (boost != none && boosts->boosted[boost] == own) return boosts->limits[boost];
    return own != none ? overrides->limits[own] : defaults;
  }

  // The limits of all, or nearly all, keys that match a pattern.
  const Limits& limits_for(const policy::Pattern& pattern) const {
    for (const Layer* layer : {boosts.get(), overrides.get()}) {
      if (layer == nullptr) continue;
      if (const auto position = layer->index.covering(pattern)) return layer->limits[*position];
    }
    return defaults;
  }

  // Calls `see` with the pattern (null: the defaults) and the limits of each group.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    visit(nullptr, defaults);
    for (const Layer* layer : {boosts.get(), overrides.get()}) {
      if (layer == nullptr) continue;
      for (std::size_t i = 0; i < layer->limits.size(); ++i) {
        visit(&layer->patterns[i], layer->limits[i]);
      }
    }
  }
};

}  // namespace weir::engine
