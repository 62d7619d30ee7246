#include "base/decimal.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace weir {
namespace {

std::optional<std::int64_t> nanos(std::string_view text) {
  const auto number = Decimal::parse(text);
  return number ? number->shifted(9) : std::nullopt;
}

TEST(Decimal, ReadsJsonNumbers) {
  EXPECT_EQ(nanos("0"), 0);
  EXPECT_EQ(nanos("-12"), -12'000'000'000);
  EXPECT_EQ(nanos("0.5"), 500'000'000);
  EXPECT_EQ(nanos("1.25e-3"), 1'250'000);
  EXPECT_EQ(nanos("1E3"), 1'000'000'000'000);
  EXPECT_EQ(nanos("1e+3"), 1'000'000'000'000);
  EXPECT_EQ(nanos("-0.000000001"), -1);
}

// 0.1 is exactly a tenth, not the nearest binary fraction.
TEST(Decimal, IsExact) {
  EXPECT_EQ(Decimal::parse("0.1")->shifted(1), 1);
  EXPECT_EQ(Decimal::parse("1767225601.234567891")->shifted(9), 1'767'225'601'234'567'891);
  EXPECT_EQ(Decimal::parse("9223372036854775807")->shifted(0),
            std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(Decimal::parse("1.0000000000000000000000000000000000000000000")->shifted(0), 1);
}

TEST(Decimal, RoundsToTheNearestAndHalvesAwayFromZero) {
  EXPECT_EQ(Decimal::parse("2.4")->shifted(0), 2);
  EXPECT_EQ(Decimal::parse("2.5")->shifted(0), 3);
  EXPECT_EQ(Decimal::parse("-2.5")->shifted(0), -3);
  EXPECT_EQ(Decimal::parse("-2.4")->shifted(0), -2);
  EXPECT_EQ(Decimal::parse("0.49999999999999999")->shifted(0), 0);
  EXPECT_EQ(Decimal::parse("2.4999999999")->shifted(0), 2);
  EXPECT_EQ(Decimal::parse("1e-400")->shifted(9), 0);
}

TEST(Decimal, ReturnsNothingBeyondSixtyFourBits) {
  EXPECT_FALSE(Decimal::parse("9223372036854775807")->shifted(1).has_value());
  EXPECT_FALSE(Decimal::parse("1e30")->shifted(0).has_value());
  EXPECT_FALSE(Decimal::parse("1e999")->shifted(9).has_value());
  EXPECT_FALSE(Decimal::parse("-1e30")->shifted(0).has_value());
  EXPECT_EQ(Decimal::parse("0e999")->shifted(9), 0);
}

TEST(Decimal, RefusesInvalidNumbers) {
  for (const char* text :
       {"",      "-",  ".",  "1.",   ".5",  "+1",  "1e",  "1e+", "1e-",   "e5",
        "1.5.2", "1 ", " 1", "0x10", "1,5", "inf", "nan", "--1", "1e5.5", "1e99999999999"}) {
    EXPECT_FALSE(Decimal::parse(text).has_value()) << text;
  }
}

TEST(Decimal, RefusesAnExponentWithTwoSigns) {
  EXPECT_FALSE(Decimal::parse("1e+-5").has_value());
  EXPECT_FALSE(Decimal::parse("1e++5").has_value());
  EXPECT_FALSE(Decimal::parse("1e-+5").has_value());
}

TEST(Decimal, RefusesMoreDigitsThanItCanHold) {
  EXPECT_FALSE(Decimal::parse(std::string(100, '9')).has_value());
}

}  // namespace
}  // namespace weir
