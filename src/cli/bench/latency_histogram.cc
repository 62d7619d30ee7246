#include "cli/bench/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace weir::cli::bench {

namespace {

// Each value below 2^11 has a bucket of its own. Each further range from 2^n to 2^(n+1) has 2^10
// buckets of equal width: the leading 11 bits of a value choose the bucket, and the first of them
// is always 1.
constexpr int kBits = 11;
constexpr int kHalf = 1 << (kBits - 1);
constexpr int kRanges = 40 - kBits;
constexpr std::size_t kBuckets = kHalf * (kRanges + 2);

}  // namespace

LatencyHistogram::LatencyHistogram() : buckets_(kBuckets) {}

std::size_t LatencyHistogram::bucket_of(std::uint64_t value) {
  const int shift = std::max(static_cast<int>(std::bit_width(value)) - kBits, 0);
  return static_cast<std::size_t>(shift) * kHalf + (value >> shift);
}

std::uint64_t LatencyHistogram::upper_bound_of(std::size_t bucket) {
  if (bucket < 2 * kHalf) return bucket;
  const std::size_t shift = bucket / kHalf - 1;
  const std::uint64_t upper = bucket - shift * kHalf;
  return ((upper + 1) << shift) - 1;
}

void LatencyHistogram::add(Nanos duration) {
  const Nanos clamped = std::clamp(duration, Nanos{0}, kMaxDuration);
  ++buckets_[bucket_of(static_cast<std::uint64_t>(clamped.count()))];
  ++count_;
  max_ = std::max(max_, duration);
  sum_ += static_cast<double>(clamped.count());
}

void LatencyHistogram::merge(const LatencyHistogram& other) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
}

Nanos LatencyHistogram::quantile(double share) const {
  const auto wanted = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_)));
  const std::uint64_t rank =
      std::clamp<std::uint64_t>(wanted, 1, std::max<std::uint64_t>(count_, 1));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= rank) return std::min(Nanos{static_cast<std::int64_t>(upper_bound_of(i))}, max_);
  }
  return max_;
}

double LatencyHistogram::mean_ns() const {
  return count_ == 0 ? 0 : sum_ / static_cast<double>(count_);
}

}  // namespace weir::cli::bench
