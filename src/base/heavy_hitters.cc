#include "base/heavy_hitters.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace weir {

HeavyHitters::HeavyHitters(std::size_t capacity)
    : entries_(capacity),
      chains_(std::bit_ceil(2 * capacity), kNone),
      next_(capacity),
      positions_(capacity) {
  heap_.reserve(capacity);
}

void HeavyHitters::clear() noexcept {
  std::ranges::fill(chains_, kNone);
  heap_.clear();
  total_ = 0;
}

std::uint64_t HeavyHitters::max_untracked_count() const noexcept {
  return size() < entries_.size() ? 0 : heap_.front().count;
}

TruncatedText* HeavyHitters::add(std::uint64_t hash, std::uint64_t weight,
                                 std::uint64_t variance) noexcept {
  total_ += weight;
  Index index = find(hash);
  const bool is_new = index == kNone;
  if (is_new) {
    index = entry_for_new_key();
    entries_[index].hash = hash;
    link(index);
  }
  entries_[index].count += weight;
  entries_[index].variance += variance;
  heap_[positions_[index]].count = entries_[index].count;
  sift_down(positions_[index]);
  if (!is_new) return nullptr;
  sift_up(positions_[index]);
  entries_[index].text.clear();
  return &entries_[index].text;
}

// Returns a free entry, or replaces the entry with the smallest count. The count of the replaced
// entry stays as the error of the new one.
HeavyHitters::Index HeavyHitters::entry_for_new_key() noexcept {
  if (size() < entries_.size()) {
    const auto index = static_cast<Index>(size());
    entries_[index].count = entries_[index].error = entries_[index].variance = 0;
    heap_.push_back({.count = 0, .index = index});
    positions_[index] = index;
    return index;
  }
  const Index index = heap_.front().index;
  unlink(index);
  entries_[index].error = entries_[index].count;
  return index;
}

// ---- Hash table

HeavyHitters::Index HeavyHitters::find(std::uint64_t hash) const noexcept {
  Index index = chains_[hash & (chains_.size() - 1)];
  while (index != kNone && entries_[index].hash != hash) index = next_[index];
  return index;
}

void HeavyHitters::link(Index index) noexcept {
  Index& first = first_in_chain(entries_[index].hash);
  next_[index] = std::exchange(first, index);
}

void HeavyHitters::unlink(Index index) noexcept {
  Index* at = &first_in_chain(entries_[index].hash);
  while (*at != index) at = &next_[*at];
  *at = next_[index];
}

// ---- Heap

void HeavyHitters::put(std::size_t position, const HeapNode& node) noexcept {
  heap_[position] = node;
  positions_[node.index] = static_cast<Index>(position);
}

void HeavyHitters::sift_up(std::size_t position) noexcept {
  const HeapNode moved = heap_[position];
  while (position > 0) {
    const std::size_t parent = (position - 1) / 2;
    if (heap_[parent].count <= moved.count) break;
    put(position, heap_[parent]);
    position = parent;
  }
  put(position, moved);
}

void HeavyHitters::sift_down(std::size_t position) noexcept {
  const HeapNode moved = heap_[position];
  for (std::size_t child; (child = 2 * position + 1) < size(); position = child) {
    if (child + 1 < size() && heap_[child + 1].count < heap_[child].count) ++child;
    if (heap_[child].count >= moved.count) break;
    put(position, heap_[child]);
  }
  put(position, moved);
}

// ---- Merging

// A key that is missing from a sketch may have up to the smallest count of that sketch.
std::vector<HeavyHitter> merged(std::span<const HeavyHitters> sketches, std::size_t max_size) {
  std::uint64_t max_untracked = 0;
  for (const HeavyHitters& sketch : sketches) max_untracked += sketch.max_untracked_count();
  std::vector<HeavyHitter> all;
  std::unordered_map<std::uint64_t, std::size_t> indices;
  for (const HeavyHitters& sketch : sketches) {
    for (const HeavyHitter& each : sketch.all()) {
      const auto [found, is_new] = indices.try_emplace(each.hash, all.size());
      if (is_new) {
        HeavyHitter& fresh = all.emplace_back(each);
        fresh.count = fresh.error = max_untracked;
        fresh.variance = 0;
      }
      HeavyHitter& sum = all[found->second];
      sum.count += each.count - sketch.max_untracked_count();
      sum.error += each.error - sketch.max_untracked_count();
      sum.variance += each.variance;
    }
  }
  const auto order = [](const HeavyHitter& a, const HeavyHitter& b) {
    return std::tuple(b.count, a.error, a.hash) < std::tuple(a.count, b.error, b.hash);
  };
  const std::size_t kept = std::min(max_size, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept), all.end(), order);
  all.resize(kept);
  return all;
}

}  // namespace weir
