#include "cli/bench/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cli/bench/random.h"

namespace weir::cli::bench {
namespace {

constexpr double kShares[] = {0.0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0};

// The definition: the smallest sample that a share of all samples is not above.
std::int64_t exactly(const std::vector<std::int64_t>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

void expect_a_thousandth_off_at_most(std::vector<std::int64_t> samples) {
  Histogram histogram;
  for (const std::int64_t sample : samples) histogram.add(Nanos{sample});
  std::sort(samples.begin(), samples.end());
  for (const double share : kShares) {
    const std::int64_t exact = exactly(samples, share);
    const std::int64_t told = histogram.at(share).count();
    EXPECT_GE(told, exact) << share;
    EXPECT_LE(told, exact + exact / 1000) << share;
  }
  EXPECT_EQ(histogram.max().count(), samples.back());
  EXPECT_EQ(histogram.count(), samples.size());
}

TEST(Histogram, IsAThousandthOffAtMostWhateverTheScale) {
  Random random(1);
  for (const std::uint64_t scale : {10ULL, 3'000ULL, 1'000'000ULL, 50'000'000'000ULL}) {
    std::vector<std::int64_t> samples;
    for (int i = 0; i < 20'000; ++i) {
      samples.push_back(static_cast<std::int64_t>(random.below(scale)));
    }
    expect_a_thousandth_off_at_most(samples);
  }
}

TEST(Histogram, HoldsScalesSideBySide) {
  Random random(2);
  std::vector<std::int64_t> samples;
  for (int i = 0; i < 50'000; ++i) {
    samples.push_back(static_cast<std::int64_t>(std::exp2(random.unit() * 39)));
  }
  expect_a_thousandth_off_at_most(samples);
}

// Where one range of buckets ends and the next begins.
TEST(Histogram, IsRightAroundPowersOfTwo) {
  for (int bit = 0; bit < 40; ++bit) {
    for (const std::int64_t off : {-1, 0, 1}) {
      const std::int64_t value = (std::int64_t{1} << bit) + off;
      if (value < 0) continue;
      expect_a_thousandth_off_at_most({value});
      if (bit < 39) expect_a_thousandth_off_at_most({value, value + 1, value + 2});
    }
  }
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram histogram;
  for (int i = 1; i <= 2000; ++i) histogram.add(Nanos{i});
  EXPECT_EQ(histogram.at(0.5).count(), 1000);
  EXPECT_EQ(histogram.at(0.999).count(), 1998);
  EXPECT_EQ(histogram.mean_ns(), 1000.5);
}

TEST(Histogram, OfNothingIsZero) {
  const Histogram histogram;
  EXPECT_EQ(histogram.at(0.99), Nanos{0});
  EXPECT_EQ(histogram.max(), Nanos{0});
  EXPECT_EQ(histogram.mean_ns(), 0);
}

TEST(Histogram, ToTheLongestCountsWhatIsLonger) {
  Histogram histogram;
  histogram.add(Nanos{-5});
  histogram.add(Histogram::kLongest);
  histogram.add(Nanos::max());
  EXPECT_EQ(histogram.at(0.1), Nanos{0});
  EXPECT_EQ(histogram.at(1), Histogram::kLongest);
  EXPECT_EQ(histogram.max(), Nanos::max());
}

TEST(Histogram, MergedIsAsIfAllHadBeenAddedToOne) {
  Random random(3);
  Histogram all;
  Histogram one;
  Histogram other;
  for (int i = 0; i < 10'000; ++i) {
    const Nanos value{static_cast<std::int64_t>(random.below(1'000'000))};
    all.add(value);
    (i % 3 == 0 ? one : other).add(value);
  }
  one.merge(other);
  EXPECT_EQ(one.count(), all.count());
  EXPECT_EQ(one.max(), all.max());
  for (const double share : kShares) EXPECT_EQ(one.at(share), all.at(share));
}

}  // namespace
}  // namespace weir::cli::bench
