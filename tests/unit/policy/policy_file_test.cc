#include "policy/policy_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::policy {
namespace {

using testing::HasSubstr;

TEST(PolicyFile, ReadsPolicies) {
  Problems problems;
  const auto set = read_policies({"weir.yaml", R"(
store: redis://127.0.0.1:6379
x-free: [ anything ]
policies:
  open-api:
    limits:
      - 100/s burst 100
      - 100000/day in Asia/Shanghai
    on_store_failure: local
  search:
    limits: [ 200/s warmup 10s ]
    shadow: true
)"},
                                 problems);
  EXPECT_TRUE(problems.empty());
  ASSERT_EQ(set.size(), 2u);
  EXPECT_EQ(set.at("open-api").limits.size(), 2u);
  EXPECT_FALSE(set.at("open-api").limits[0].shadow);
  EXPECT_TRUE(set.at("search").limits[0].shadow);
}

TEST(PolicyFile, ReadsWhenFull) {
  Problems problems;
  const auto set = read_policies({"weir.yaml", R"(
policies:
  a: { limits: [ 5/s ] }
  b: { limits: [ 5/s ], when_full: share }
  c: { limits: [ 5/s ], when_full: deny }
  d: { limits: [ 5/s ], when_full: allow }
)"},
                                 problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(set.at("a").when_full, WhenFull::share);
  EXPECT_EQ(set.at("b").when_full, WhenFull::share);
  EXPECT_EQ(set.at("c").when_full, WhenFull::deny);
  EXPECT_EQ(set.at("d").when_full, WhenFull::allow);
}

TEST(PolicyFile, RefusesAnUnknownWhenFull) {
  for (const char* wrong : {"Share", "drop", "\"\"", "1", "[ deny ]", "{}", "~"}) {
    Problems problems;
    const std::string text =
        "policies:\n  a:\n    limits: [ 5/s ]\n    when_full: " + std::string{wrong} + "\n";
    read_policies({"weir.yaml", text}, problems);
    ASSERT_EQ(problems.size(), 1u) << wrong;
    EXPECT_EQ(problems[0].place.line, 4u) << wrong;
    EXPECT_THAT(problems[0].message, HasSubstr("\"when_full\" is share, deny or allow, not "));
  }
}

TEST(PolicyFile, TellsAllProblemsAtOnce) {
  Problems problems;
  read_policies({"weir.yaml", R"(
stor: memory
policies:
  a: { limits: [ 100/sec ] }
  b: { limit: [ 5/s ] }
  c: { limits: [ 5/s, 5/s ], schedule: {} }
  d: [ 5/s ]
  e: { limits: [ { limit: 1/s, name: x }, { limit: 2/s, name: x } ] }
)"},
                problems);
  std::string all;
  for (const Problem& problem : problems) {
    all += std::to_string(problem.place.line) + ": " + problem.message + "\n";
  }
  EXPECT_THAT(all, HasSubstr("2: a policy file has no field \"stor\" (did you mean \"store\"?)"));
  EXPECT_THAT(all, HasSubstr("4: unknown unit \"sec\""));
  EXPECT_THAT(all, HasSubstr("5: a policy has no field \"limit\" (did you mean \"limits\"?)"));
  EXPECT_THAT(all, HasSubstr("6: \"schedule\" is a list of entries"));
  EXPECT_THAT(all, HasSubstr("7: a policy is a map with limits"));
  EXPECT_THAT(all, HasSubstr("8: two limits have the name \"x\""));
}

TEST(PolicyFile, PointsAtADuplicateName) {
  Problems problems;
  read_policies({"weir.yaml",
                 "policies: { a: { limits: [ { limit: 1/s, name: x }, 2/s,\n"
                 "  { limit: 3/s, name: x } ] } }\n"},
                problems);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].message, "two limits have the name \"x\": choose another");
  EXPECT_EQ(problems[0].place.line, 2);
  EXPECT_EQ(problems[0].place.column, 23);
}

TEST(PolicyFile, IsAMap) {
  Problems problems;
  read_policies({"weir.yaml", "- a\n"}, problems);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0].message, HasSubstr("a map with policies, not a list"));
}

}  // namespace
}  // namespace weir::policy
