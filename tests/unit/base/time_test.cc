#include "base/time.h"

#include <gtest/gtest.h>

#include <limits>

namespace weir {
namespace {

// The zero instant means "never seen", so the range starts 1 ns later.
TEST(Time, ClampsInstantsToTheRangeOfLimits) {
  constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
  constexpr auto highest = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(in_range(instant(lowest)), kEarliest);
  EXPECT_EQ(in_range(instant(-1)), kEarliest);
  EXPECT_EQ(in_range(instant(0)), kEarliest);
  EXPECT_EQ(in_range(instant(1)), instant(1));
  EXPECT_EQ(in_range(instant(1'767'225'600'000'000'000)), instant(1'767'225'600'000'000'000));
  EXPECT_EQ(in_range(kLatest), kLatest);
  EXPECT_EQ(in_range(instant(highest)), kLatest);
}

TEST(Time, ConvertsInstantsToNanosecondsAndBack) {
  EXPECT_EQ(ns(instant(42)), 42);
  EXPECT_EQ(ns(instant(-42)), -42);
}

// The upper end leaves headroom for two of the longest debts.
TEST(Time, ReachesBeyondTheYear2100) {
  using namespace std::chrono;
  EXPECT_GT(kLatest, Instant{sys_days{year{2100} / 1 / 1}});
  EXPECT_LE(ns(kLatest), std::numeric_limits<std::int64_t>::max() / 2 + 1);
}

}  // namespace
}  // namespace weir
