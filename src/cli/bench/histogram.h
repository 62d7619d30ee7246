#pragma once

#include <cstdint>
#include <vector>

#include "weir/time.h"

namespace weir::cli::bench {

// Durations, counted in buckets that grow with what they hold: each is at most a thousandth as wide
// as its values, from a nanosecond to a quarter of an hour. Costs a few instructions and nothing
// else for each, however many there are.
class Histogram {
 public:
  Histogram();

  // What is longer than the longest counts as that; below zero as zero.
  void add(Nanos duration);
  void merge(const Histogram& other);

  std::uint64_t count() const { return count_; }
  Nanos max() const { return max_; }  // exact
  // The smallest that `share` (0 to 1) of all are not above; at most a thousandth too long. 0 if
  // there are none.
  Nanos at(double share) const;
  double mean_ns() const;

  static constexpr Nanos kLongest{(std::int64_t{1} << 40) - 1};

 private:
  static std::size_t bucket_of(std::uint64_t value);
  static std::uint64_t last_of(std::size_t bucket);

  std::vector<std::uint64_t> buckets_;
  std::uint64_t count_ = 0;
  Nanos max_{0};
  double sum_ = 0;
};

}  // namespace weir::cli::bench
