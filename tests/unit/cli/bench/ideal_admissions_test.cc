#include "cli/bench/ideal_admissions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/bench/message.h"
#include "policy/limit_text.h"

namespace weir::cli::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

KnownLimit known(std::string_view text, Permits cost = 1, bool shadow = false) {
  return {.rule = *policy::parse_limit(text), .cost = cost, .shadow = shadow};
}

std::uint64_t for_key(std::vector<KnownLimit> limits, Nanos elapsed) {
  const auto ideal = IdealAdmissions::of({}, std::move(limits));
  return ideal ? ideal->for_key(elapsed) : 0;
}

TEST(IdealAdmissions, IsTheBurstPlusTheRefill) {
  EXPECT_EQ(for_key({known("100/s burst 20")}, Nanos{0}), 20U);
  EXPECT_EQ(for_key({known("100/s burst 20")}, seconds{2}), 220U);
  EXPECT_EQ(for_key({known("3/s")}, milliseconds{333}), 3U);
  EXPECT_EQ(for_key({known("3/s")}, milliseconds{334}), 4U);
}

TEST(IdealAdmissions, CountsRequestsNotPermits) {
  EXPECT_EQ(for_key({known("100/s burst 20", 7)}, seconds{1}), 17U);
  EXPECT_EQ(for_key({known("100/s burst 20", 21)}, seconds{1}), 0U);
}

TEST(IdealAdmissions, IsThatOfTheTightestOfSeveralLimits) {
  const std::vector<KnownLimit> limits{known("100/s burst 20"), known("10/min"),
                                       known("1/h", 1, true)};
  EXPECT_EQ(for_key(limits, Nanos{0}), 10U);
  EXPECT_EQ(for_key(limits, seconds{60}), 20U);
}

TEST(IdealAdmissions, IncludesTheRoundingOfRedisCell) {
  BenchPlan plan;
  plan.limit = "3/s";
  const auto cell = ad_hoc_limit(plan);
  ASSERT_TRUE(cell);
  EXPECT_EQ(for_key({{.rule = *cell}}, Nanos{333'333'333}), 4U);
}

TEST(IdealAdmissions, IsDefinedOnlyForTakesFromTokenBuckets) {
  const auto why = [](const BenchPlan& plan, std::string_view text) {
    const auto ideal = IdealAdmissions::of(plan, {known(text)});
    return ideal ? "" : ideal.error().message;
  };
  EXPECT_EQ(why({}, "5/s"), "");
  EXPECT_THAT(why({}, "5/min sliding"), HasSubstr("5/min sliding"));
  EXPECT_THAT(why({}, "5/s queue 3"), HasSubstr("token bucket"));
  BenchPlan plan;
  plan.mix.parts = {1, 0, 1};
  EXPECT_THAT(why(plan, "5/s"), HasSubstr("settle"));
  plan.mix.parts = {0, 1, 0};
  EXPECT_THAT(why(plan, "5/s"), HasSubstr("no takes"));
}

TEST(IdealAdmissions, IsAtMostTheNumberOfTakesOfEachKey) {
  TakesPerKey takes_per_key(3);
  takes_per_key[0] = 5;
  takes_per_key[1] = 50;
  const auto ideal = IdealAdmissions::of({}, {known("10/h")});
  ASSERT_TRUE(ideal);
  EXPECT_EQ(ideal->for_all(takes_per_key, seconds{1}), 15U);
}

// The bound is tight: a caller that takes all the time is admitted exactly that often.
TEST(IdealAdmissions, IsTheNumberThatAGreedyCallerGets) {
  const core::Bucket bucket = std::get<core::Bucket>(*policy::parse_limit("7/s burst 3"));
  core::State state{};
  std::uint64_t admitted = 0;
  for (int ms = 0; ms <= 10'000; ++ms) {
    const auto taken = core::take(bucket, state, instant(1'000'000'000) + milliseconds{ms});
    state = taken.next;
    admitted += taken.decision.outcome == core::Outcome::allowed;
  }
  EXPECT_EQ(for_key({known("7/s burst 3")}, seconds{10}), admitted);
}

TEST(ExplainLine, IsParsedFromTheEndOfTheLine) {
  const auto limit =
      read_explained("a: b: 100/s burst 20: 20 of 20 left, full again in 3s; a cost of 4 passes");
  ASSERT_TRUE(limit);
  EXPECT_EQ(policy::to_text(limit->rule), "100/s burst 20");
  EXPECT_EQ(limit->cost, 4);
  EXPECT_FALSE(limit->shadow);
  EXPECT_TRUE(
      read_explained("0: 5/s: 5 of 5 left; a cost of 1 passes (a shadow: never refuses)")->shadow);
}

TEST(ExplainLine, AnyOtherLineIsAnError) {
  for (const char* line : {"", "x", "; a cost of 1", ": ; a cost of 1", "0: 5/s: ; a cost of x",
                           "0: 5/sek: 5 of 5 left; a cost of 1 passes"}) {
    EXPECT_FALSE(read_explained(line)) << line;
  }
}

}  // namespace
}  // namespace weir::cli::bench
