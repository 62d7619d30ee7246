#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "policy/overrides.h"

namespace weir::engine {

// Keys that have limits of their own, and for each pattern what `Limits` says of them. Never
// changes.
template <typename Limits>
struct KeyLayer {
  policy::PatternIndex index;
  std::vector<policy::Pattern> patterns;
  std::vector<Limits> limits;  // by position
  // Of boosts, by position: the override whose limits are boosted, or kUsual.
  std::vector<std::size_t> boosted{};

  static constexpr std::size_t kUsual = SIZE_MAX;

  std::size_t find(const policy::Subject& subject) const {
    return index.find(subject).value_or(kUsual);
  }
};

// What holds for which keys of a policy. The first group in which a key is counts; most policies
// have no others than the usual one.
template <typename Limits>
struct KeyGroups {
  using Layer = KeyLayer<Limits>;

  Limits usual;
  std::shared_ptr<const Layer> boosts{};
  std::shared_ptr<const Layer> overrides{};

  const Limits& limits_for(const policy::Subject& subject) const {
    if (overrides == nullptr && boosts == nullptr) [[likely]]
      return usual;
    constexpr std::size_t none = Layer::kUsual;
    const std::size_t own = overrides != nullptr ? overrides->find(subject) : none;
    const std::size_t boost = boosts != nullptr ? boosts->find(subject) : none;
    // (A request of several parts may have an override by one and a boost by another, which is of
    // other limits.)
    if (boost != none && boosts->boosted[boost] == own) return boosts->limits[boost];
    return own != none ? overrides->limits[own] : usual;
  }

  // Those of all, or nearly all, keys that a pattern is for.
  const Limits& limits_for(const policy::Pattern& pattern) const {
    for (const Layer* layer : {boosts.get(), overrides.get()}) {
      if (layer == nullptr) continue;
      if (const auto position = layer->index.covering(pattern)) return layer->limits[*position];
    }
    return usual;
  }

  // Calls `see` with the pattern (none for the usual ones) and the limits of each group.
  template <typename See>
  void for_each(const See& see) const {
    see(nullptr, usual);
    for (const Layer* layer : {boosts.get(), overrides.get()}) {
      if (layer == nullptr) continue;
      for (std::size_t i = 0; i < layer->limits.size(); ++i) {
        see(&layer->patterns[i], layer->limits[i]);
      }
    }
  }
};

}  // namespace weir::engine
