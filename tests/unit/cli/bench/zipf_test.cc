#include "cli/bench/zipf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace weir::cli::bench {
namespace {

// Pearson's chi-squared sum. Ranks with an expected count below ten share a cell.
struct Fit {
  double chi_square = 0;
  int freedom = -1;

  // The sum exceeds this bound by chance with a probability of 1e-5 (Wilson-Hilferty
  // approximation).
  double bound() const {
    const double k = freedom;
    const double z = 4.2649;
    return k * std::pow(1 - 2 / (9 * k) + z * std::sqrt(2 / (9 * k)), 3);
  }
};

Fit fit_of(std::uint64_t count, double exponent, std::uint64_t samples, std::uint64_t seed) {
  const Zipf zipf(count, exponent);
  Random random(seed);
  std::vector<std::uint64_t> seen(count + 1);
  for (std::uint64_t i = 0; i < samples; ++i) ++seen.at(zipf.next(random));
  double sum = 0;
  for (std::uint64_t k = 1; k <= count; ++k) sum += std::pow(static_cast<double>(k), -exponent);
  Fit fit;
  double expected = 0;
  double found = 0;
  const auto close_cell = [&] {
    if (expected == 0) return;
    fit.chi_square += (found - expected) * (found - expected) / expected;
    ++fit.freedom;
    expected = found = 0;
  };
  for (std::uint64_t k = 1; k <= count; ++k) {
    expected += static_cast<double>(samples) * std::pow(static_cast<double>(k), -exponent) / sum;
    found += static_cast<double>(seen[k]);
    if (expected >= 10) close_cell();
  }
  close_cell();
  return fit;
}

TEST(Zipf, FitsTheExactDistribution) {
  for (const double exponent : {0.3, 0.8, 1.0, 1.2, 2.0, 5.0}) {
    for (const std::uint64_t count : {2, 3, 10, 1000, 20'000}) {
      const Fit fit = fit_of(count, exponent, 200'000, count + 7);
      EXPECT_LT(fit.chi_square, fit.bound()) << count << " ranks, exponent " << exponent;
    }
  }
}

// Proves that the test detects a wrong distribution.
TEST(Zipf, ChiSquareDetectsAnotherExponent) {
  const std::uint64_t count = 1000;
  const Zipf zipf(count, 1.02);
  Random random(5);
  double sum = 0;
  for (std::uint64_t k = 1; k <= count; ++k) sum += 1 / static_cast<double>(k);
  std::vector<double> seen(count + 1);
  const int samples = 200'000;
  for (int i = 0; i < samples; ++i) ++seen[zipf.next(random)];
  Fit fit{.chi_square = 0, .freedom = static_cast<int>(count) - 1};
  for (std::uint64_t k = 1; k <= count; ++k) {
    const double expected = samples / (static_cast<double>(k) * sum);
    fit.chi_square += (seen[k] - expected) * (seen[k] - expected) / expected;
  }
  EXPECT_GT(fit.chi_square, fit.bound());
}

TEST(Zipf, HasTheRightShareInEachPowerOfTenOfTenMillionRanks) {
  constexpr std::uint64_t count = 10'000'000;
  constexpr int samples = 300'000;
  const Zipf zipf(count, 1.0);
  Random random(11);
  std::vector<double> seen(8);
  for (int i = 0; i < samples; ++i) {
    const std::uint64_t rank = zipf.next(random);
    ASSERT_GE(rank, 1U);
    ASSERT_LE(rank, count);
    ++seen[static_cast<std::size_t>(std::log10(static_cast<double>(rank) + 0.1))];
  }
  // Sums of 1/k up to a power of ten.
  const auto harmonic = [](double n) { return std::log(n) + 0.5772156649015329 + 1 / (2 * n); };
  double before = 0;
  for (std::size_t i = 0; i < 7; ++i) {
    double until = i == 6 ? harmonic(count) : harmonic(std::pow(10, i + 1) - 1);
    if (i == 0) until = 1 + 0.5 + 1.0 / 3 + 0.25 + 0.2 + 1.0 / 6 + 1.0 / 7 + 0.125 + 1.0 / 9;
    const double share = (until - before) / harmonic(count);
    before = until;
    const double spread = std::sqrt(share * (1 - share) * samples);
    EXPECT_NEAR(seen[i], share * samples, 5 * spread) << "10^" << i;
  }
}

TEST(Zipf, AlwaysReturnsTheOnlyRank) {
  Random random(1);
  const Zipf zipf(1, 1.0);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(zipf.next(random), 1U);
}

TEST(Zipf, ReturnsTheSameRanksForTheSameSeed) {
  const Zipf zipf(1000, 1.1);
  Random one(42);
  Random other(42);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(zipf.next(one), zipf.next(other));
}

}  // namespace
}  // namespace weir::cli::bench
