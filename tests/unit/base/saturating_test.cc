#include "base/saturating.h"

#include <gtest/gtest.h>

#include <limits>

namespace weir {
namespace {

constexpr auto kLowest = std::numeric_limits<std::int64_t>::min();
constexpr auto kHighest = std::numeric_limits<std::int64_t>::max();

TEST(Saturating, ClampsSums) {
  EXPECT_EQ(sat_add(2, 3), 5);
  EXPECT_EQ(sat_add(kHighest, 0), kHighest);
  EXPECT_EQ(sat_add(kHighest, 1), kHighest);
  EXPECT_EQ(sat_add(kHighest, kHighest), kHighest);
  EXPECT_EQ(sat_add(kLowest, -1), kLowest);
  EXPECT_EQ(sat_add(kLowest, kLowest), kLowest);
  EXPECT_EQ(sat_add(kLowest, kHighest), -1);
}

TEST(Saturating, ClampsDifferences) {
  EXPECT_EQ(sat_sub(2, 3), -1);
  EXPECT_EQ(sat_sub(0, kLowest), kHighest);
  EXPECT_EQ(sat_sub(-1, kLowest), kHighest);
  EXPECT_EQ(sat_sub(-2, kHighest), kLowest);
  EXPECT_EQ(sat_sub(kHighest, -1), kHighest);
  EXPECT_EQ(sat_sub(kLowest, 1), kLowest);
}

TEST(Saturating, ClampsWideNumbersToSixtyFourBits) {
  EXPECT_EQ(to_int64(Int128{7}), 7);
  EXPECT_EQ(to_int64(Int128{-7}), -7);
  EXPECT_EQ(to_int64(Int128{kHighest} + 1), kHighest);
  EXPECT_EQ(to_int64(Int128{kLowest} - 1), kLowest);
  EXPECT_EQ(to_int64(Int128{1} << 126), kHighest);
}

TEST(Saturating, ClampsInstants) {
  EXPECT_EQ(later(instant(5), Nanos{3}), instant(8));
  EXPECT_EQ(later(instant(5), Nanos{-3}), instant(2));
  EXPECT_EQ(later(instant(5), kForever), instant(kHighest));
  EXPECT_EQ(later(instant(-5), Nanos::min()), instant(kLowest));
}

TEST(Saturating, ClampsTheTimeBetweenTwoInstants) {
  EXPECT_EQ(between(instant(3), instant(10)), Nanos{7});
  EXPECT_EQ(between(instant(10), instant(3)), Nanos{-7});
  EXPECT_EQ(between(instant(kLowest), instant(kHighest)), Nanos::max());
  EXPECT_EQ(between(instant(kHighest), instant(kLowest)), Nanos::min());
}

TEST(Saturating, HasNoTimeLeftUntilAPastInstant) {
  EXPECT_EQ(until(instant(3), instant(10)), Nanos{7});
  EXPECT_EQ(until(instant(10), instant(10)), Nanos{0});
  EXPECT_EQ(until(instant(10), instant(3)), Nanos{0});
  EXPECT_EQ(until(instant(kHighest), instant(kLowest)), Nanos{0});
}

TEST(Saturating, RoundsUpInCeilDiv) {
  EXPECT_EQ(to_int64(ceil_div(0, 5)), 0);
  EXPECT_EQ(to_int64(ceil_div(1, 5)), 1);
  EXPECT_EQ(to_int64(ceil_div(5, 5)), 1);
  EXPECT_EQ(to_int64(ceil_div(6, 5)), 2);
  EXPECT_EQ(to_int64(ceil_div(-1, 5)), 0);
  EXPECT_EQ(to_int64(ceil_div(-5, 5)), -1);
  EXPECT_EQ(to_int64(ceil_div(-6, 5)), -1);
}

// The fast and the general division must agree where operands reach 64 bits.
TEST(Saturating, DividesTheSameOnBothPathsOfQuickDiv) {
  const Int128 word = std::numeric_limits<std::uint64_t>::max();
  for (const Int128 dividend : {Int128{0}, Int128{7}, word - 1, word, word + 1, word * 1000}) {
    for (const Int128 divisor : {Int128{1}, Int128{3}, word, word + 1}) {
      EXPECT_TRUE(quick_div(dividend, divisor) == dividend / divisor);
    }
  }
}

}  // namespace
}  // namespace weir
