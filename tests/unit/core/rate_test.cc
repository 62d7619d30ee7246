#include "core/rate.h"

#include <gtest/gtest.h>

#include <limits>

#include "at.h"

namespace weir::core {
namespace {

constexpr std::int64_t kParts = 1 << 20;

Flaw flaw(const Rate& rate) { return EmissionInterval::of(rate, kParts).error(); }

TEST(Rate, IsWholeWhenItsFractionIsZero) {
  EXPECT_TRUE((Rate{5, 1}).whole());
  EXPECT_TRUE((Rate{50, 10}).whole());
  EXPECT_FALSE((Rate{5, 10}).whole());
  EXPECT_EQ((Rate{25, 10}).floor(), 2);
}

// The price of a permit is a fraction of nanoseconds in lowest terms.
TEST(EmissionInterval, IsExactForOrdinaryRates) {
  const EmissionInterval twenty = *EmissionInterval::of(per_second(20), kParts);
  EXPECT_EQ(twenty.parts, 1);
  EXPECT_EQ(to_int64(twenty.price), 50'000'000);
  const EmissionInterval three = *EmissionInterval::of(per_second(3), kParts);
  EXPECT_EQ(three.parts, 3);
  EXPECT_EQ(to_int64(three.price), 1'000'000'000);
  const EmissionInterval tenths = *EmissionInterval::of({3, 10, seconds{1}}, kParts);
  EXPECT_EQ(tenths.parts, 3);
  EXPECT_EQ(to_int64(tenths.price), 10'000'000'000);
  const EmissionInterval fastest = *EmissionInterval::of(per_second(kMaxRate), kParts);
  EXPECT_EQ(fastest.parts, 1000);
  EXPECT_EQ(to_int64(fastest.price), 1);
}

// Rounded up if the fraction does not fit, so that the rate is never exceeded.
TEST(EmissionInterval, IsRoundedUpForOddRatesAboveAMillion) {
  const EmissionInterval odd = *EmissionInterval::of(per_second(999'999'937), kParts);
  EXPECT_EQ(odd.parts, kParts);
  EXPECT_GE(odd.price * 999'999'937, Int128{1'000'000'000} * kParts);
  EXPECT_LT((odd.price - 1) * 999'999'937, Int128{1'000'000'000} * kParts);
}

TEST(EmissionInterval, RejectsInvalidRates) {
  EXPECT_EQ(flaw({0, 1, seconds{1}}), Flaw::rate_not_positive);
  EXPECT_EQ(flaw({-1, 1, seconds{1}}), Flaw::rate_not_positive);
  EXPECT_EQ(flaw({1, 0, seconds{1}}), Flaw::rate_not_positive);
  EXPECT_EQ(flaw({1, 1, Nanos{0}}), Flaw::period_not_positive);
  EXPECT_EQ(flaw({1, 1, Nanos{-5}}), Flaw::period_not_positive);
  EXPECT_EQ(flaw({1, 1, kLongestDebt + Nanos{1}}), Flaw::period_too_long);
  EXPECT_EQ(flaw({1, 10, kLongestDebt}), Flaw::rate_too_low);
  EXPECT_EQ(flaw(per_second(kMaxRate + 1)), Flaw::rate_too_high);
  EXPECT_TRUE(EmissionInterval::of({1, 1, kLongestDebt}, kParts));
}

TEST(EmissionInterval, ValidatesTheLargestNumbersWithoutOverflow) {
  constexpr auto highest = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(flaw({highest, 1, Nanos{1}}), Flaw::rate_too_high);
  EXPECT_EQ(flaw({1, kMaxScale, kLongestDebt}), Flaw::rate_too_low);
  EXPECT_EQ(flaw({1, kMaxScale * 10, seconds{1}}), Flaw::too_many_decimals);
  // 9.2 billion permits in 73 years, with nine decimals.
  const auto slow = EmissionInterval::of({highest, kMaxScale, kLongestDebt}, kParts);
  ASSERT_TRUE(slow);
  EXPECT_NEAR(static_cast<double>(slow->price) / static_cast<double>(slow->parts), 2.5e8, 1e6);
}

}  // namespace
}  // namespace weir::core
