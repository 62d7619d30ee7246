#include "cli/bench/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace weir::cli::bench {

namespace {

// Values below 2^11 have a bucket each. Between any two further powers of two there are 2^10 of the
// same width: the upper half of what 11 bits can say, the lower half being the range before.
constexpr int kBits = 11;
constexpr int kHalf = 1 << (kBits - 1);
constexpr int kRanges = 40 - kBits;
constexpr std::size_t kBuckets = kHalf * (kRanges + 2);

}  // namespace

Histogram::Histogram() : buckets_(kBuckets) {}

std::size_t Histogram::bucket_of(std::uint64_t value) {
  const int shift = std::max(static_cast<int>(std::bit_width(value)) - kBits, 0);
  return static_cast<std::size_t>(shift) * kHalf + (value >> shift);
}

std::uint64_t Histogram::last_of(std::size_t bucket) {
  if (bucket < 2 * kHalf) return bucket;
  const std::size_t shift = bucket / kHalf - 1;
  const std::uint64_t upper = bucket - shift * kHalf;
  return ((upper + 1) << shift) - 1;
}

void Histogram::add(Nanos duration) {
  const Nanos kept = std::clamp(duration, Nanos{0}, kLongest);
  ++buckets_[bucket_of(static_cast<std::uint64_t>(kept.count()))];
  ++count_;
  max_ = std::max(max_, duration);
  sum_ += static_cast<double>(kept.count());
}

void Histogram::merge(const Histogram& other) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
}

Nanos Histogram::at(double share) const {
  const auto wanted = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_)));
  const std::uint64_t rank =
      std::clamp<std::uint64_t>(wanted, 1, std::max<std::uint64_t>(count_, 1));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= rank) return std::min(Nanos{static_cast<std::int64_t>(last_of(i))}, max_);
  }
  return max_;
}

double Histogram::mean_ns() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

}  // namespace weir::cli::bench
