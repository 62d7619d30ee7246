#pragma once

#include <cstdint>
#include <vector>

#include "weir/time.h"

namespace weir::cli::bench {

// A histogram of durations from 1 ns to 18 min, with a relative error of at most 1/1000: the width
// of a bucket is at most a thousandth of its values. Adding a duration takes a few instructions and
// no memory. Not thread-safe.
class LatencyHistogram {
 public:
  LatencyHistogram();

  // Clamps the duration to 0 … kMaxDuration; `max` keeps the exact value.
  void add(Nanos duration);
  void merge(const LatencyHistogram& other);

  std::uint64_t count() const { return count_; }
  Nanos max() const { return max_; }  // exact
  // The quantile of `share` (0 to 1): the smallest duration that at least this share of all samples
  // does not exceed, rounded up by at most a thousandth. 0 for an empty histogram.
  Nanos quantile(double share) const;
  double mean_ns() const;

  static constexpr Nanos kMaxDuration{(std::int64_t{1} << 40) - 1};

 private:
  static std::size_t bucket_of(std::uint64_t value);
  static std::uint64_t upper_bound_of(std::size_t bucket);

  std::vector<std::uint64_t> buckets_;
  std::uint64_t count_ = 0;
  Nanos max_{0};
  double sum_ = 0;
};

}  // namespace weir::cli::bench
