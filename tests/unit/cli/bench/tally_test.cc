#include "cli/bench/tally.h"

#include <gtest/gtest.h>

namespace weir::cli::bench {
namespace {

TEST(ErrorCounts, CountsByKindAndKeepsTheFirstText) {
  ErrorCounts errors;
  errors.add("ERR", "first");
  errors.add("ERR", "second");
  errors.add("closed", "gone", 3);
  EXPECT_EQ(errors.count(), 5U);
  EXPECT_EQ(errors.kinds().at("ERR").count, 2U);
  EXPECT_EQ(errors.kinds().at("ERR").example, "first");
}

// Bounds the memory against a daemon that sends a new kind with each error.
TEST(ErrorCounts, CountsFurtherKindsAsOther) {
  ErrorCounts errors;
  for (int i = 0; i < 1000; ++i) errors.add(std::to_string(i), std::string(10'000, 'x'));
  EXPECT_LE(errors.kinds().size(), ErrorCounts::kMaxKinds + 1);
  EXPECT_EQ(errors.count(), 1000U);
  EXPECT_EQ(errors.kinds().at("0").example.size(), ErrorCounts::kMaxExampleBytes);
}

TEST(Tally, MergeAddsAllCounts) {
  Tally one;
  one.answers = 2;
  one.decided[1].refused = 3;
  one.errors.add("a", "x");
  one.last_answer = Nanos{9};
  one.latency.add(Nanos{4});
  Tally other = one;
  other.last_answer = Nanos{7};
  one.merge(other);
  EXPECT_EQ(one.answers, 4U);
  EXPECT_EQ(one.decided[1].refused, 6U);
  EXPECT_EQ(one.errors.count(), 2U);
  EXPECT_EQ(one.last_answer, Nanos{9});
  EXPECT_EQ(one.latency.count(), 2U);
}

}  // namespace
}  // namespace weir::cli::bench
