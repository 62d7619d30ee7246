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
  return size() < entries_.size() ? 0 : entries_[heap_.front()].count;
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
    heap_.push_back(place);
    positions_[place] = place;
    return place;
  }
  const Place place = heap_.front();
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

void HeavyHitters::put(std::size_t position, Place place) noexcept {
  heap_[position] = place;
  positions_[place] = static_cast<Place>(position);
}

void HeavyHitters::sift_up(std::size_t position) noexcept {
  const Place place = heap_[position];
  while (position > 0) {
    const std::size_t parent = (position - 1) / 2;
    if (entries_[heap_[parent]].count <= entries_[place].count) break;
    put(position, heap_[parent]);
    position = parent;
  }
  put(position, place);
}

void HeavyHitters::sift_down(std::size_t position) noexcept {
  const Place place = heap_[position];
  const auto count_at = [&](std::size_t at) { return entries_[heap_[at]].count; };
  for (std::size_t child; (child = 2 * position + 1) < size(); position = child) {
    if (child + 1 < size() && count_at(child + 1) < count_at(child)) ++child;
    if (count_at(child) >= entries_[place].count) break;
    put(position, heap_[child]);
  }
  put(position, place);
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
