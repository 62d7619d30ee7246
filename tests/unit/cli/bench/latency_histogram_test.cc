#include "cli/bench/latency_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cli/bench/random.h"

namespace weir::cli::bench {
namespace {

constexpr double kShares[] = {0.0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0};

// By definition: the smallest sample that at least this share of all samples does not exceed.
std::int64_t exactly(const std::vector<std::int64_t>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

void expect_error_of_at_most_a_thousandth(std::vector<std::int64_t> samples) {
  LatencyHistogram histogram;
  for (const std::int64_t sample : samples) histogram.add(Nanos{sample});
  std::sort(samples.begin(), samples.end());
  for (const double share : kShares) {
    const std::int64_t exact = exactly(samples, share);
    const std::int64_t reported = histogram.quantile(share).count();
    EXPECT_GE(reported, exact) << share;
    EXPECT_LE(reported, exact + exact / 1000) << share;
  }
  EXPECT_EQ(histogram.max().count(), samples.back());
  EXPECT_EQ(histogram.count(), samples.size());
}

TEST(LatencyHistogram, HasARelativeErrorOfAtMostAThousandthAtAnyScale) {
  Random random(1);
  for (const std::uint64_t scale : {10ULL, 3'000ULL, 1'000'000ULL, 50'000'000'000ULL}) {
    std::vector<std::int64_t> samples;
    for (int i = 0; i < 20'000; ++i) {
      samples.push_back(static_cast<std::int64_t>(random.below(scale)));
    }
    expect_error_of_at_most_a_thousandth(samples);
  }
}

TEST(LatencyHistogram, HasTheSameErrorWithSamplesOfManyScales) {
  Random random(2);
  std::vector<std::int64_t> samples;
  for (int i = 0; i < 50'000; ++i) {
    samples.push_back(static_cast<std::int64_t>(std::exp2(random.unit() * 39)));
  }
  expect_error_of_at_most_a_thousandth(samples);
}

// The width of the buckets changes at powers of two.
TEST(LatencyHistogram, HasTheSameErrorAroundPowersOfTwo) {
  for (int bit = 0; bit < 40; ++bit) {
    for (const std::int64_t off : {-1, 0, 1}) {
      const std::int64_t value = (std::int64_t{1} << bit) + off;
      if (value < 0) continue;
      expect_error_of_at_most_a_thousandth({value});
      if (bit < 39) expect_error_of_at_most_a_thousandth({value, value + 1, value + 2});
    }
  }
}

TEST(LatencyHistogram, SmallValuesAreExact) {
  LatencyHistogram histogram;
  for (int i = 1; i <= 2000; ++i) histogram.add(Nanos{i});
  EXPECT_EQ(histogram.quantile(0.5).count(), 1000);
  EXPECT_EQ(histogram.quantile(0.999).count(), 1998);
  EXPECT_EQ(histogram.mean_ns(), 1000.5);
}

TEST(LatencyHistogram, QuantilesOfAnEmptyHistogramAreZero) {
  const LatencyHistogram histogram;
  EXPECT_EQ(histogram.quantile(0.99), Nanos{0});
  EXPECT_EQ(histogram.max(), Nanos{0});
  EXPECT_EQ(histogram.mean_ns(), 0);
}

TEST(LatencyHistogram, ClampsDurationsToItsRange) {
  LatencyHistogram histogram;
  histogram.add(Nanos{-5});
  histogram.add(LatencyHistogram::kMaxDuration);
  histogram.add(Nanos::max());
  EXPECT_EQ(histogram.quantile(0.1), Nanos{0});
  EXPECT_EQ(histogram.quantile(1), LatencyHistogram::kMaxDuration);
  EXPECT_EQ(histogram.max(), Nanos::max());
}

TEST(LatencyHistogram, MergeGivesTheHistogramOfAllSamples) {
  Random random(3);
  LatencyHistogram all;
  LatencyHistogram one;
  LatencyHistogram other;
  for (int i = 0; i < 10'000; ++i) {
    const Nanos value{static_cast<std::int64_t>(random.below(1'000'000))};
    all.add(value);
    (i % 3 == 0 ? one : other).add(value);
  }
  one.merge(other);
  EXPECT_EQ(one.count(), all.count());
  EXPECT_EQ(one.max(), all.max());
  for (const double share : kShares) EXPECT_EQ(one.quantile(share), all.quantile(share));
}

}  // namespace
}  // namespace weir::cli::bench
