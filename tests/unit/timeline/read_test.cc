#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "timeline/timeline.h"

namespace weir::timeline {
namespace {

using testing::HasSubstr;

std::vector<Case> read(const std::string& yaml) {
  policy::Problems problems;
  auto cases = read_cases({"test.yaml", yaml}, nullptr, problems);
  for (const auto& problem : problems) ADD_FAILURE() << problem.message;
  return cases;
}

// The problems of a file, one per line.
std::string wrong(const std::string& yaml, const policy::PolicySet* policies = nullptr) {
  policy::Problems problems;
  read_cases({"test.yaml", yaml}, policies, problems);
  std::string all;
  for (const auto& [place, message] : problems) {
    all += std::to_string(place.line) + ":" + std::to_string(place.column) + ": " + message + "\n";
  }
  return all;
}

std::string wrong_step(const std::string& step) {
  return wrong("- { limit: 5/s, steps: [ { " + step + " } ] }");
}

TEST(ReadCases, TakesTimesToTheNearestNanosecond) {
  const auto cases = read(
      "- { limit: 5/s, steps: [ { at: 0.1 }, { at: 1e-9 }, { at: -2 },"
      " { at: 86400.0000000014 }, { at: 2.5e3 }, { n: 2 } ] }");
  const auto& steps = cases.at(0).steps;
  EXPECT_EQ(steps[0].at, Nanos{100'000'000});
  EXPECT_EQ(steps[1].at, Nanos{1});
  EXPECT_EQ(steps[2].at, std::chrono::seconds{-2});
  EXPECT_EQ(steps[3].at, Nanos{86'400'000'000'001});
  EXPECT_EQ(steps[4].at, std::chrono::seconds{2500});
  EXPECT_EQ(steps[5].at, steps[4].at) << "without a time of its own, the step before's";
}

TEST(ReadCases, HasDefaultsForSteps) {
  const auto cases = read("- { limit: 5/s, steps: [ { at: 0 } ] }");
  const Step& step = cases.at(0).steps.at(0);
  EXPECT_EQ(cases[0].name, "case 1");
  EXPECT_EQ(cases[0].epoch, Instant{std::chrono::sys_days{std::chrono::January / 1 / 2026}});
  EXPECT_EQ(cases[0].tolerance, Nanos{1000});
  EXPECT_EQ(step.op, Op::take);
  EXPECT_EQ(step.n, 1);
  EXPECT_EQ(step.permits, 1);
  EXPECT_EQ(step.subject.key, "k");
  EXPECT_FALSE(step.max_wait);
  EXPECT_FALSE(step.expected.allowed);
}

TEST(ReadCases, ReadsExpectations) {
  const auto cases = read(
      "- limit: 5/s\n  steps:\n"
      "    - { at: 0, max_wait: inf, waits: [0, 0.2], retry_after: null,"
      " outcome: impossible, limited_by: 0, remaining: 3, reset_after: 1.5 }");
  const Step& step = cases.at(0).steps.at(0);
  EXPECT_EQ(step.max_wait, kForever);
  EXPECT_EQ(step.expected.waits, (std::vector<Nanos>{Nanos{0}, Nanos{200'000'000}}));
  EXPECT_EQ(step.expected.retry_after, core::kNever);
  EXPECT_EQ(step.expected.outcome, core::Outcome::impossible);
  EXPECT_EQ(step.expected.limited_by, "0");
  EXPECT_EQ(step.expected.reset_after, Nanos{1'500'000'000});
}

TEST(ReadCases, ReportsInvalidSteps) {
  EXPECT_THAT(wrong_step("att: 0"),
              HasSubstr("a step has no field \"att\" (did you mean \"at\"?)"));
  EXPECT_THAT(wrong_step("at: soon"), HasSubstr("\"at\" is a number, not \"soon\""));
  EXPECT_THAT(wrong_step("at: .nan"), HasSubstr("\"at\" is a number"));
  EXPECT_THAT(wrong_step("at: 1e30"), HasSubstr("292 years"));
  EXPECT_THAT(wrong_step("at: 9e9"), HasSubstr("between 1970 and 2116"));
  EXPECT_THAT(wrong_step("at: -9e9"), HasSubstr("between 1970 and 2116"));
  EXPECT_THAT(wrong_step("at: 0, n: 0"), HasSubstr("\"n\" is a whole number from 1"));
  EXPECT_THAT(wrong_step("at: 0, n: 1e15"), HasSubstr("\"n\" is a whole number from 1"));
  EXPECT_THAT(wrong_step("at: 0, n: 1.5"), HasSubstr("whole number"));
  EXPECT_THAT(wrong_step("at: 0, permits: -1"), HasSubstr("\"permits\" is a whole number from 0"));
  EXPECT_THAT(wrong_step("at: 0, op: grab"), HasSubstr("\"op\" is one of take, peek"));
  EXPECT_THAT(wrong_step("at: 0, op: tke"), HasSubstr("did you mean \"take\"?"));
  EXPECT_THAT(wrong_step("at: 0, outcome: refused"), HasSubstr("allowed, limited, impossible"));
  EXPECT_THAT(wrong_step("at: 0, waits: 0"), HasSubstr("a list of seconds"));
  EXPECT_THAT(wrong_step("at: 0, key: a, parts: { b: c }"), HasSubstr("not both"));
  EXPECT_THAT(wrong_step("at: 0, key: \"\""), HasSubstr("the key is empty"));
  EXPECT_THAT(wrong_step("at: 0, parts: {}"), HasSubstr("\"parts\" is a map"));
  EXPECT_THAT(wrong_step("at: 0, limit: 5/s"), HasSubstr("goes with \"op: set_limit\""));
  EXPECT_THAT(wrong_step("at: 0, op: set_limit"), HasSubstr("needs the new limit"));
  EXPECT_THAT(wrong_step("at: 0, op: set_limit, limit: 5/sec"), HasSubstr("did you mean \"5/s\""));
  EXPECT_THAT(wrong_step("at: 0, op: leave"), HasSubstr("the holder is missing"));
  EXPECT_THAT(wrong("- { limit: 5/s, steps: [ 3 ] }"), HasSubstr("a step is a map"));
}

TEST(ReadCases, ReportsInvalidCases) {
  EXPECT_THAT(wrong("a: 1\n"), HasSubstr("a list of cases, not a map"));
  EXPECT_THAT(wrong(""), HasSubstr("a list of cases, not nothing"));
  EXPECT_THAT(wrong("- 5\n"), HasSubstr("a case is a map"));
  EXPECT_THAT(wrong("- { limit: 5/s }\n"), HasSubstr("a case needs steps"));
  EXPECT_THAT(wrong("- { steps: [] }\n"), HasSubstr("one of limit, limits and policy"));
  EXPECT_THAT(wrong("- { limit: 5/s, limits: [ 5/s ], steps: [] }\n"), HasSubstr("one of"));
  EXPECT_THAT(wrong("- { limit: 5/s, epoch: today, steps: [] }\n"),
              HasSubstr("\"epoch\" is a date"));
  EXPECT_THAT(wrong("- { limit: 5/s, start: empty, steps: [] }\n"), HasSubstr("for smooth limits"));
  EXPECT_THAT(wrong("- { limit: 5/s warmup 3s, start: empty, steps: [] }\n"),
              HasSubstr("for smooth limits"));
  EXPECT_THAT(wrong("- { limit: 5/s smooth, start: full, steps: [] }\n"),
              HasSubstr("\"start\" is empty or rest"));
  EXPECT_THAT(wrong("- { policy: login, steps: [] }\n"), HasSubstr("--config"));
  EXPECT_THAT(wrong("- { limit: 2 concurrent, steps: [ { at: 0 } ] }\n"), HasSubstr("op: enter"));
  EXPECT_THAT(wrong("- { limit: { limit: 1/s, by: user }, steps: [ { at: 0 } ] }\n"),
              HasSubstr("the part \"user\" is missing"));
}

TEST(ReadCases, TellsAllProblemsAtOnce) {
  const std::string all = wrong(
      "- { limit: 5/sec, steps: [] }\n"
      "- { limit: 5/s, steps: [ { at: x }, { att: 0 } ] }\n");
  EXPECT_THAT(all, HasSubstr("1:14: unknown unit"));
  EXPECT_THAT(all, HasSubstr("2:32: \"at\" is a number"));
  EXPECT_THAT(all, HasSubstr("2:39: a step has no field"));
}

TEST(ReadCases, FindsPoliciesByName) {
  policy::Problems problems;
  const auto policies =
      policy::read_policies({"weir.yaml", "policies: { login: { limits: [ 5/min ] } }"}, problems);
  EXPECT_EQ(wrong("- { policy: login, steps: [ { at: 0 } ] }", &policies), "");
  EXPECT_THAT(wrong("- { policy: logn, steps: [] }", &policies),
              HasSubstr("no policy \"logn\" (did you mean \"login\"?)"));
}

TEST(ReadCases, RefusesAnAmbiguousSetLimit) {
  EXPECT_THAT(wrong("- limits: [ 5/s, 10/min ]\n"
                    "  steps: [ { at: 0, op: set_limit, limit: 6/s } ]\n"),
              HasSubstr("it is not clear which limit"));
  const auto cases = read(
      "- limits: [ 5/s, 10/min window ]\n"
      "  steps: [ { at: 0, op: set_limit, limit: 11/min window } ]\n");
  EXPECT_EQ(cases.at(0).steps.at(0).limit_position, 1u);
}

// The limits of the key at the time of the step decide which fields it needs.
TEST(ReadCases, TracksTheLimitsOfEachStep) {
  policy::Problems problems;
  const auto policies = policy::read_policies({"weir.yaml", R"(
policies:
  plans:
    limits: [ 5/min ]
    overrides: { batch: 1 concurrent, tier=gold: { by: user, limit: 9/min } }
    schedule: [ { hours: 09:00-18:00, limits: [ { by: user, limit: 9/min } ] } ]
)"},
                                              problems);
  EXPECT_TRUE(problems.empty());
  const auto wrong_of = [&](const std::string& fields) {
    return wrong("- { policy: plans, " + fields + " }", &policies);
  };
  EXPECT_EQ(wrong_of("steps: [ { at: 0 }, { op: enter, key: batch } ]"), "");
  EXPECT_THAT(wrong_of("steps: [ { key: batch } ]"), HasSubstr("write op: enter"));
  EXPECT_THAT(wrong_of("steps: [ { parts: { tier: gold } } ]"),
              HasSubstr("the part \"user\" is missing"));
  EXPECT_EQ(wrong_of("steps: [ { at: 32399 } ]"), "");
  EXPECT_THAT(wrong_of("steps: [ { at: 32400 } ]"), HasSubstr("the part \"user\" is missing"));
  EXPECT_THAT(wrong_of("steps: [ { op: set_limit, limit: 6/min } ]"),
              HasSubstr("set_limit cannot change a policy that has overrides or a schedule"));
  EXPECT_THAT(wrong_of("start: empty, steps: []"),
              HasSubstr("\"start: empty\" is not for a policy that has overrides or a schedule"));
}

}  // namespace
}  // namespace weir::timeline
