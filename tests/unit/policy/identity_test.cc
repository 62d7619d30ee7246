#include "policy/identity.h"

#include <gtest/gtest.h>

#include <set>

#include "policy/limit_yaml.h"
#include "policy/source.h"
#include "policy/yaml.h"

namespace weir::policy {
namespace {

// The identities of limits written as in a policy file: "10/min, { limit: 5/s, name: a }".
std::vector<std::string> of(const std::string& limits, std::string_view policy = "p") {
  Problems problems;
  const Source source{"limits", "[ " + limits + " ]"};
  const auto node = parse_yaml(source, problems);
  const auto read = read_limits(*node, problems);
  EXPECT_TRUE(problems.empty()) << limits;
  return identities_of(policy, read);
}

// Numbers may change without a change of identity.

TEST(Identity, DoesNotDependOnTheCounts) {
  EXPECT_EQ(of("10/min"), of("20/min"));
  EXPECT_EQ(of("10/min"), of("10/min burst 50"));
  EXPECT_EQ(of("10/h window"), of("20/h window"));
  EXPECT_EQ(of("10/h sliding"), of("20/h sliding"));
  EXPECT_EQ(of("10/h sliding exact"), of("20/h sliding exact"));
  EXPECT_EQ(of("10/day in Asia/Shanghai"), of("20/day in Asia/Shanghai"));
  EXPECT_EQ(of("10/s queue 5"), of("20/s queue 9 delay 3"));
  EXPECT_EQ(of("8 concurrent lease 30s"), of("9 concurrent lease 60s"));
  EXPECT_EQ(of("10/s smooth"), of("20/s smooth"));
}

// 60s and 1min are the same period.
TEST(Identity, DoesNotDependOnTheWayAPeriodIsWritten) {
  EXPECT_EQ(of("10/min"), of("10 per 60s"));
  EXPECT_EQ(of("10/h window"), of("10 per 60min window"));
}

TEST(Identity, DoesNotDependOnWhatIsChargedOrEnforced) {
  EXPECT_EQ(of("10/min"), of("{ limit: 10/min, cost: 5, shadow: true, scope: node }"));
}

TEST(Identity, DoesNotDependOnTheOrderOfParts) {
  EXPECT_EQ(of("{ limit: 10/min, by: [ a, b ] }"), of("{ limit: 10/min, by: [ b, a ] }"));
}

// A named limit keeps its identity whatever changes, except the algorithm.
TEST(Identity, IsTheNameWhereThereIsOne) {
  EXPECT_EQ(of("{ limit: 10/min, name: a }"), of("{ limit: 5/s, name: a, by: user }"));
  EXPECT_EQ(of("{ limit: 10/day, name: a }"), of("{ limit: 10/month in Asia/Tokyo, name: a }"));
  EXPECT_NE(of("{ limit: 10/min, name: a }"), of("{ limit: 10/min, name: b }"));
  EXPECT_NE(of("{ limit: 10/min, name: a }"), of("10/min"));
}

// The position matters only among limits that are equal otherwise.
TEST(Identity, DoesNotDependOnThePositionAmongOthers) {
  const auto one = of("10/min, 5/s, 10/h window");
  const auto other = of("10/h window, 10/min, 7/s");
  EXPECT_EQ(one[0], other[1]);
  EXPECT_EQ(one[1], other[2]);
  EXPECT_EQ(one[2], other[0]);
}

TEST(Identity, TellsEqualsByTheirOrder) {
  const auto three = of("10/min, 20/min, 10/min");
  EXPECT_EQ(std::set<std::string>(three.begin(), three.end()).size(), 3u);
  EXPECT_EQ(of("30/min, 40/min")[0], three[0]);
  EXPECT_EQ(of("30/min, 5/s, 40/min")[2], three[1]);
}

// All of these are different identities.
TEST(Identity, TellsLimitsApart) {
  const std::string limits[] = {"10/min",
                                "10/s",
                                "10/min window",
                                "10/min window from first",
                                "10/min sliding",
                                "10/min sliding exact",
                                "10/min smooth",
                                "{ limit: 10/min queue 5, like: nginx }",
                                "10/day",
                                "10/week",
                                "10/month",
                                "10/month from day 2",
                                "10/day in Asia/Shanghai",
                                "10/day in Asia/Tokyo",
                                "10 concurrent",
                                "{ limit: 10/min, by: a }",
                                "{ limit: 10/min, by: b }",
                                "{ limit: 10/min, by: ab }",
                                "{ limit: 10/min, by: [ a, b ] }",
                                "{ limit: 10/min, name: a }",
                                "{ limit: 10/min window, name: a }"};
  std::set<std::string> all;
  for (const std::string& limit : limits) all.insert(of(limit)[0]);
  EXPECT_EQ(all.size(), std::size(limits));
}

// A queue is a bucket whose callers wait.
TEST(Identity, IsTheSameForABucketAndAQueue) { EXPECT_EQ(of("10/min"), of("10/min queue 5")); }

TEST(Identity, BelongsToOnePolicy) {
  EXPECT_NE(of("10/min", "a"), of("10/min", "b"));
  EXPECT_NE(of("{ limit: 10/min, name: x }", "a"), of("{ limit: 10/min, name: x }", "b"));
}

// Names may have any bytes: none can be chosen that equals the identity of another limit.
TEST(Identity, CannotBeForged) {
  const auto real = of("10/min, 10/min", "p");
  for (const std::string& forged : {real[0], real[1], std::string{"p;"}, std::string{"1:p;"}}) {
    const Limit named{.limit = *core::Bucket::make({10, 1, std::chrono::minutes{1}}, 10),
                      .name = forged};
    EXPECT_NE(identities_of("p", {named})[0], real[0]);
    EXPECT_NE(identities_of(forged, {named})[0], real[0]);
    EXPECT_NE(identities_of("", {named})[0], real[0]);
  }
}

// State files store these texts: a changed text would lose the usage of all keys.
TEST(Identity, StaysTheSameFromVersionToVersion) {
  EXPECT_EQ(of("10/min")[0], "1:p;19:1:0;11:60000000000;;1:1;");
  EXPECT_EQ(of("{ limit: 10/s queue 5, like: nginx }")[0], "1:p;18:1:1;10:1000000000;;1:1;");
  EXPECT_EQ(of("10/s smooth")[0], "1:p;18:1:2;10:1000000000;;1:1;");
  EXPECT_EQ(of("10/s window")[0], "1:p;18:1:3;10:1000000000;;1:1;");
  EXPECT_EQ(of("10/s window from first")[0], "1:p;19:2:3f;10:1000000000;;1:1;");
  EXPECT_EQ(of("10/s sliding")[0], "1:p;18:1:4;10:1000000000;;1:1;");
  EXPECT_EQ(of("10/month in Asia/Shanghai from day 3")[0], "1:p;25:1:5;17:2 Asia/Shanghai 3;;1:1;");
  EXPECT_EQ(of("10/s sliding exact")[0], "1:p;18:1:6;10:1000000000;;1:1;");
  EXPECT_EQ(of("10 concurrent")[0], "1:p;7:1:7;0:;;1:1;");
  EXPECT_EQ(of("{ limit: 10/s, name: a }")[0], "1:p;15:1:0;4:name;1:a;;1:1;");
  EXPECT_EQ(of("{ limit: 10/s, by: [ user, sku ] }")[0],
            "1:p;31:1:0;10:1000000000;3:sku;4:user;;1:1;");
}

TEST(Identity, IsEmptyWithoutLimits) { EXPECT_TRUE(identities_of("p", {}).empty()); }

}  // namespace
}  // namespace weir::policy
