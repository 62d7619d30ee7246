#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/truncated_text.h"

namespace weir {

// A key and its estimated count. The true count is between `count - error` and `count`.
struct HeavyHitter {
  std::uint64_t hash = 0;
  std::uint64_t count = 0;
  std::uint64_t error = 0;
  std::uint64_t variance = 0;  // of `count`, if it counts samples
  TruncatedText text{};
};

// The keys with the highest counts in a stream, in memory of a fixed size: the Space-Saving sketch
// of Metwally, Agrawal and El Abbadi. A new key replaces the key with the smallest count and
// inherits that count. So a count is never too small, and too large by at most the smallest count.
// Every key whose count exceeds total / capacity is in the sketch.
// Not thread-safe.
class HeavyHitters {
 public:
  explicit HeavyHitters(std::size_t capacity);

  // Counts `weight` for a key. Returns null if the key is in the sketch already; otherwise a
  // pointer to its text, which the caller has to fill in. A sample of one in w that is counted with
  // weight w has a variance of w * (w - 1).
  TruncatedText* add(std::uint64_t hash, std::uint64_t weight, std::uint64_t variance = 0) noexcept;
  void clear() noexcept;

  // Unordered.
  std::span<const HeavyHitter> all() const noexcept { return {entries_.data(), size()}; }
  std::size_t size() const noexcept { return heap_.size(); }
  std::uint64_t total() const noexcept { return total_; }
  // An upper bound of the count of any key that is not in the sketch.
  std::uint64_t max_untracked_count() const noexcept;

 private:
  using Index = std::uint16_t;
  static constexpr Index kNone = UINT16_MAX;
  // The count is copied here because entries are far apart in memory.
  struct HeapNode {
    std::uint64_t count;
    Index index;
  };

  Index& first_in_chain(std::uint64_t hash) noexcept {
    return chains_[hash & (chains_.size() - 1)];
  }
  Index find(std::uint64_t hash) const noexcept;
  void link(Index index) noexcept;
  void unlink(Index index) noexcept;
  void put(std::size_t position, const HeapNode& node) noexcept;
  void sift_up(std::size_t position) noexcept;
  void sift_down(std::size_t position) noexcept;
  Index entry_for_new_key() noexcept;

  std::vector<HeavyHitter> entries_;
  std::vector<Index> chains_;     // hash table: the first entry of each chain
  std::vector<Index> next_;       // by entry: the next one in its chain
  std::vector<Index> positions_;  // by entry: its position in the heap
  std::vector<HeapNode> heap_;    // min-heap by count
  std::uint64_t total_ = 0;
};

// Merges sketches of several streams: at most `max_size` keys, the largest counts first. The error
// bounds hold for the sum of the streams.
std::vector<HeavyHitter> merged(std::span<const HeavyHitters> sketches, std::size_t max_size);

}  // namespace weir
