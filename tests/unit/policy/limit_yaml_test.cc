#include "policy/limit_yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/limit_text.h"

namespace weir::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct ReadBack {
  std::optional<Limit> limit;
  Problems problems;
};

ReadBack read(const std::string& yaml) {
  ReadBack result;
  const auto root = parse_yaml({"test.yaml", yaml}, result.problems);
  if (root != nullptr) result.limit = read_limit(*root, result.problems);
  return result;
}

Limit limit(const std::string& yaml) {
  const auto result = read(yaml);
  EXPECT_TRUE(result.limit) << yaml << ": "
                            << (result.problems.empty() ? "" : result.problems[0].message);
  return result.limit.value_or(Limit{});
}

std::string text(const std::string& yaml) { return to_text(limit(yaml).limit); }

std::string wrong(const std::string& yaml) {
  const auto result = read(yaml);
  if (result.problems.empty()) return "nothing";
  EXPECT_FALSE(result.limit);
  return std::to_string(result.problems[0].place.column) + ": " + result.problems[0].message;
}

TEST(LimitYaml, ReadsATextOrAMap) {
  EXPECT_EQ(text("100/s burst 20"), "100/s burst 20");
  EXPECT_EQ(text("{ limit: 100/s burst 20 }"), "100/s burst 20");
}

TEST(LimitYaml, ReadsTheSameAsFields) {
  EXPECT_EQ(text("{ rate: 100/s, burst: 20 }"), "100/s burst 20");
  EXPECT_EQ(text("{ limit: 100/s, burst: 20 }"), "100/s burst 20");
  EXPECT_EQ(text("{ rate: 5/min, window: true }"), "5/min window");
  EXPECT_EQ(text("{ rate: 5/min, window: from first }"), "5/min window from first");
  EXPECT_EQ(text("{ rate: 5/min, sliding: exact }"), "5/min sliding exact");
  EXPECT_EQ(text("{ rate: 5/min, sliding: false }"), "5/min");
  EXPECT_EQ(text("{ rate: 5/s, queue: 9, delay: 2 }"), "5/s queue 9 delay 2");
  EXPECT_EQ(text("{ rate: 5/s, queue: 9, nodelay: true }"), "5/s queue 9 nodelay");
  EXPECT_EQ(text("{ rate: 5/s, smooth: true }"), "5/s smooth");
  EXPECT_EQ(text("{ rate: 5/s, warmup: 3s }"), "5/s warmup 3s");
  EXPECT_EQ(text("{ rate: 5/month, in: Asia/Tokyo, from_day: 3 }"),
            "5/month in Asia/Tokyo from day 3");
  EXPECT_EQ(text("{ concurrent: 8, lease: 30s }"), "8 concurrent lease 30s");
  EXPECT_EQ(text("{ rate: 100000 per 90s }"), "100000/90s");
}

TEST(LimitYaml, KeepsNginxsTruncationsWhenAsked) {
  EXPECT_TRUE(std::holds_alternative<core::NginxQueue>(
      limit("{ limit: 10/min queue 5, like: nginx }").limit));
  EXPECT_TRUE(
      std::holds_alternative<core::NginxQueue>(limit("{ limit: 10/min, like: nginx }").limit));
  EXPECT_THAT(wrong("{ limit: 10/h queue 5, like: nginx }"), HasSubstr("only /s and /min"));
  EXPECT_THAT(wrong("{ limit: 10/s queue 5, like: apache }"), HasSubstr("like: nginx"));
  EXPECT_THAT(wrong("{ limit: 10/s burst 5, like: nginx }"), HasSubstr("choose one"));
}

TEST(LimitYaml, ReadsWhatALimitAppliesTo) {
  const Limit made =
      limit("{ limit: 5/s, name: sku, by: [ sku, region ], cost: 3, scope: fleet, shadow: true }");
  EXPECT_EQ(made.name, "sku");
  EXPECT_THAT(made.by, ElementsAre("region", "sku"));
  EXPECT_EQ(made.cost.of(100), 3);
  EXPECT_EQ(made.scope, Scope::fleet);
  EXPECT_TRUE(made.shadow);
  EXPECT_EQ(limit("{ limit: 5/s, cost: permits }").cost.of(100), 100);
  EXPECT_THAT(limit("{ limit: 5/s, by: user }").by, ElementsAre("user"));
}

TEST(LimitYaml, PointsAtTheCharacterInsideAMap) {
  EXPECT_EQ(wrong("{ by: user, limit: 100/sec }"),
            "24: unknown unit \"sec\": did you mean \"100/s\"?");
  EXPECT_EQ(wrong("{ limit: \"100/sec\" }"), "15: unknown unit \"sec\": did you mean \"100/s\"?");
}

TEST(LimitYaml, SaysWhatIsWrong) {
  EXPECT_THAT(wrong("{ limt: 5/s }"), HasSubstr("did you mean \"limit\"?"));
  EXPECT_THAT(wrong("{ name: x }"), HasSubstr("a limit is missing"));
  EXPECT_THAT(wrong("{ limit: 5/s, rate: 5/s }"), HasSubstr("is enough"));
  EXPECT_THAT(wrong("{ rate: 5/s burst 3 }"), HasSubstr("fields of its own"));
  EXPECT_THAT(wrong("{ limit: 5/s burst 3, burst: 4 }"), HasSubstr("given twice"));
  EXPECT_THAT(wrong("{ limit: 5/s, scope: flet }"), HasSubstr("did you mean \"fleet\"?"));
  EXPECT_THAT(wrong("{ limit: 5/s, shadow: maybe }"), HasSubstr("true or false"));
  EXPECT_THAT(wrong("{ limit: 5/s, smooth: yes }"), HasSubstr("true or false"));
  EXPECT_THAT(wrong("{ limit: 5/s, cost: -1 }"), HasSubstr("below zero"));
  EXPECT_THAT(wrong("{ limit: 5/s, cost: [1] }"), HasSubstr("a number or \"permits\""));
  EXPECT_THAT(wrong("{ limit: 5/s, cost: permit }"), HasSubstr("did you mean \"permits\"?"));
  EXPECT_THAT(wrong("{ limit: 5/s, by: [] , name: { a: b } }"), HasSubstr("wants a value"));
  EXPECT_THAT(wrong("{ limit: 5/s, by: [a, a] }"), HasSubstr("twice"));
  EXPECT_THAT(wrong("[ 5/s ]"), HasSubstr("a text like 100/s or a map"));
}

TEST(LimitsYaml, RefuseAnEmptyListAndTooManyLimits) {
  Problems problems;
  EXPECT_TRUE(read_limits(*parse_yaml({"f", "[]"}, problems), problems).empty());
  ASSERT_EQ(problems.size(), 1u);
  std::string many = "[";
  for (int i = 0; i < 17; ++i) many += "1/s,";
  problems.clear();
  EXPECT_TRUE(read_limits(*parse_yaml({"f", many + "]"}, problems), problems).empty());
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0].message, HasSubstr("too many"));
}

}  // namespace
}  // namespace weir::policy
