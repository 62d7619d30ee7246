#include "base/heavy_hitters.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace weir {

HeavyHitters::HeavyHitters(std::size_t most)
    : entries_(most), chains_(std::bit_ceil(2 * most), kNone), next_(most), positions_(most) {
  heap_.reserve(most);
}

void HeavyHitters::clear() noexcept {
  std::ranges::fill(chains_, kNone);
  heap_.clear();
  total_ = 0;
}

std::uint64_t HeavyHitters::most_of_others() const noexcept {
  return size() < entries_.size() ? 0 : heap_.front().count;
}

BoundedText* HeavyHitters::add(std::uint64_t hash, std::uint64_t weight,
                               std::uint64_t variance) noexcept {
  total_ += weight;
  Place place = find(hash);
  const bool is_new = place == kNone;
  if (is_new) {
    place = place_for_newcomer();
    entries_[place].hash = hash;
    link(place);
  }
  entries_[place].count += weight;
  entries_[place].variance += variance;
  heap_[positions_[place]].count = entries_[place].count;
  sift_down(positions_[place]);
  if (!is_new) return nullptr;
  sift_up(positions_[place]);
  entries_[place].text.clear();
  return &entries_[place].text;
}

// An entry that is free, or that of the smallest count: what was counted there stays, as an error.
HeavyHitters::Place HeavyHitters::place_for_newcomer() noexcept {
  if (size() < entries_.size()) {
    const auto place = static_cast<Place>(size());
    entries_[place].count = entries_[place].error = entries_[place].variance = 0;
    heap_.push_back({.count = 0, .place = place});
    positions_[place] = place;
    return place;
  }
  const Place place = heap_.front().place;
  unlink(place);
  entries_[place].error = entries_[place].count;
  return place;
}

// ---- By hash

HeavyHitters::Place HeavyHitters::find(std::uint64_t hash) const noexcept {
  Place place = chains_[hash & (chains_.size() - 1)];
  while (place != kNone && entries_[place].hash != hash) place = next_[place];
  return place;
}

void HeavyHitters::link(Place place) noexcept {
  Place& first = first_in_chain(entries_[place].hash);
  next_[place] = std::exchange(first, place);
}

void HeavyHitters::unlink(Place place) noexcept {
  Place* at = &first_in_chain(entries_[place].hash);
  while (*at != place) at = &next_[*at];
  *at = next_[place];
}

// ---- By count

void HeavyHitters::put(std::size_t position, const Ranked& ranked) noexcept {
  heap_[position] = ranked;
  positions_[ranked.place] = static_cast<Place>(position);
}

void HeavyHitters::sift_up(std::size_t position) noexcept {
  const Ranked rising = heap_[position];
  while (position > 0) {
    const std::size_t parent = (position - 1) / 2;
    if (heap_[parent].count <= rising.count) break;
    put(position, heap_[parent]);
    position = parent;
  }
  put(position, rising);
}

void HeavyHitters::sift_down(std::size_t position) noexcept {
  const Ranked sinking = heap_[position];
  for (std::size_t child; (child = 2 * position + 1) < size(); position = child) {
    if (child + 1 < size() && heap_[child + 1].count < heap_[child].count) ++child;
    if (heap_[child].count >= sinking.count) break;
    put(position, heap_[child]);
  }
  put(position, sinking);
}

// ---- Several

// Where a key is not in a sketch, that sketch may have counted for it what it has counted for the
// smallest of those that are.
std::vector<HeavyHitter> merged(std::span<const HeavyHitters> sketches, std::size_t most) {
  std::uint64_t of_others = 0;
  for (const HeavyHitters& sketch : sketches) of_others += sketch.most_of_others();
  std::vector<HeavyHitter> all;
  std::unordered_map<std::uint64_t, std::size_t> places;
  for (const HeavyHitters& sketch : sketches) {
    for (const HeavyHitter& each : sketch.all()) {
      const auto [found, is_new] = places.try_emplace(each.hash, all.size());
      if (is_new) {
        HeavyHitter& fresh = all.emplace_back(each);
        fresh.count = fresh.error = of_others;
        fresh.variance = 0;
      }
      HeavyHitter& sum = all[found->second];
      sum.count += each.count - sketch.most_of_others();
      sum.error += each.error - sketch.most_of_others();
      sum.variance += each.variance;
    }
  }
  const auto order = [](const HeavyHitter& a, const HeavyHitter& b) {
    return std::tuple(b.count, a.error, a.hash) < std::tuple(a.count, b.error, b.hash);
  };
  const std::size_t kept = std::min(most, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept), all.end(), order);
  all.resize(kept);
  return all;
}

}  // namespace weir
