#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bounded_text.h"

namespace weir {

// A key and how much was counted for it: `count` at most, and `count - error` at least.
struct HeavyHitter {
  std::uint64_t hash = 0;
  std::uint64_t count = 0;
  std::uint64_t error = 0;
  std::uint64_t variance = 0;  // of `count`, where samples were counted
  BoundedText text{};
};

// The keys for which most is counted, in memory of a fixed size: Space-Saving, as Metwally, Agrawal
// and El Abbadi describe it. A newcomer takes the place of the key with the smallest count and goes
// on from there, so a count is never too small, and too large by no more than the smallest one was.
// Whoever has more than total / most is there.
// Not thread-safe.
class HeavyHitters {
 public:
  explicit HeavyHitters(std::size_t most);

  // Counts `weight`. Where the key is new here, its text has to be put into what is returned.
  // (A sample of one in w, counted with the weight w, has a variance of w * (w - 1).)
  BoundedText* add(std::uint64_t hash, std::uint64_t weight, std::uint64_t variance = 0) noexcept;
  void clear() noexcept;

  // In no order.
  std::span<const HeavyHitter> all() const noexcept { return {entries_.data(), size()}; }
  std::size_t size() const noexcept { return heap_.size(); }
  std::uint64_t total() const noexcept { return total_; }
  // No key that is not here has more.
  std::uint64_t most_of_others() const noexcept;

 private:
  using Place = std::uint16_t;
  static constexpr Place kNone = UINT16_MAX;
  // (With the count beside it: entries are far apart in memory.)
  struct Ranked {
    std::uint64_t count;
    Place place;
  };

  Place& first_in_chain(std::uint64_t hash) noexcept {
    return chains_[hash & (chains_.size() - 1)];
  }
  Place find(std::uint64_t hash) const noexcept;
  void link(Place place) noexcept;
  void unlink(Place place) noexcept;
  void put(std::size_t position, const Ranked& ranked) noexcept;
  void sift_up(std::size_t position) noexcept;
  void sift_down(std::size_t position) noexcept;
  Place place_for_newcomer() noexcept;

  std::vector<HeavyHitter> entries_;
  std::vector<Place> chains_;     // by hash: the first entry of each chain
  std::vector<Place> next_;       // by entry: who follows it in its chain
  std::vector<Place> positions_;  // by entry: where it is in the heap
  std::vector<Ranked> heap_;      // entries, the smallest count first
  std::uint64_t total_ = 0;
};

// What all of them have counted, the largest counts first, `most` at most. The bounds hold for what
// was counted in all.
std::vector<HeavyHitter> merged(std::span<const HeavyHitters> sketches, std::size_t most);

}  // namespace weir
