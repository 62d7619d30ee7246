#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "timeline/timeline.h"

// The vectors cover cases that pass. These cases must fail.

namespace weir::timeline {
namespace {

std::vector<Mismatch> mismatches(const std::string& yaml) {
  policy::Problems problems;
  const auto cases = read_cases({"test.yaml", yaml}, nullptr, problems);
  for (const auto& problem : problems) ADD_FAILURE() << problem.message;
  // A case that fails on the algorithms alone fails on an engine, too.
  EXPECT_EQ(run(cases.at(0), Store::core).size(), run(cases.at(0), Store::memory).size());
  return run(cases.at(0), Store::memory);
}

std::string mismatch(const std::string& step) {
  const auto all = mismatches("- { limit: 10/s burst 2, steps: [ { at: 0, " + step + " } ] }");
  if (all.empty()) return "none";
  EXPECT_EQ(all.size(), 1u);
  return all[0].what + ": " + all[0].expected + " / " + all[0].actual;
}

TEST(Run, NoticesEveryExpectationThatIsNotMet) {
  EXPECT_EQ(mismatch("n: 3, allowed: 3"), "allowed: 3 / 2");
  EXPECT_EQ(mismatch("n: 3, waits: [0]"), "waits: 0 s / 0 s, 0 s");
  EXPECT_EQ(mismatch("n: 3, max_wait: 9, waits: [0, 0, 0.2]"),
            "waits: 0 s, 0 s, 0.2 s / 0 s, 0 s, 0.1 s");
  EXPECT_EQ(mismatch("permits: 9, waits: [0]"), "waits: 0 s / none");
  EXPECT_EQ(mismatch("remaining: 2"), "remaining: 2 / 1");
  EXPECT_EQ(mismatch("n: 3, retry_after: 0.2"), "retry_after: 0.2 s / 0.1 s");
  EXPECT_EQ(mismatch("n: 3, retry_after: null"), "retry_after: never / 0.1 s");
  EXPECT_EQ(mismatch("permits: 3, retry_after: 0"), "retry_after: 0 s / never");
  EXPECT_EQ(mismatch("reset_after: 0"), "reset_after: 0 s / 0.1 s");
  EXPECT_EQ(mismatch("outcome: limited"), "outcome: limited / allowed");
  EXPECT_EQ(mismatch("limited_by: 1"), "limited_by: 1 / 0");
}

TEST(Run, ComparesDurationsWithinAMicrosecondByDefault) {
  EXPECT_EQ(mismatch("reset_after: 0.1000010"), "none");
  EXPECT_EQ(mismatch("reset_after: 0.1000011"), "reset_after: 0.1000011 s / 0.1 s");
  EXPECT_TRUE(mismatches("- { limit: 1/s, tolerance: 0.1, steps: [ { at: 0, reset_after: 0.9 } ] }")
                  .empty());
}

TEST(Run, NamesTheStepThatFailed) {
  const auto all = mismatches(
      "- limit: 1/s\n  steps:\n"
      "    - { at: 0, allowed: 1 }\n"
      "    - { at: 0, allowed: 1 }\n");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].step, 2u);
  EXPECT_EQ(all[0].place.line, 4);
}

TEST(Run, ForgetsUsageOnlyWhenTheAlgorithmChanges) {
  EXPECT_TRUE(mismatches("- limit: 2/min window\n  steps:\n"
                         "    - { at: 0, n: 2, allowed: 2 }\n"
                         "    - { at: 0, op: set_limit, limit: 2/min sliding }\n"
                         "    - { at: 0, allowed: 1 }\n")
                  .empty());
}

}  // namespace
}  // namespace weir::timeline
