#include "envoy/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.h"

namespace weir::envoy {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kRules = R"(domain: shop
descriptors:
  - key: user
    descriptors:
      - { key: path, value: /buy, rate_limit: { unit: minute, requests_per_unit: 5, name: buying } }
      - { key: path, value: /img/*, rate_limit: { unlimited: true } }
      - { key: path, value: /free }
)";

ExplainedDescriptor explained(World& world, std::string_view domain,
                              RateLimitDescriptor descriptor) {
  RateLimitRequest call{.domain = domain, .descriptors = {}};
  call.descriptors.push_back(std::move(descriptor));
  std::optional<RequestExplanation> explanation;
  world.service.explain(call, world.link(), [&](Result<RequestExplanation, ServiceError> given) {
    ASSERT_TRUE(given) << given.error().text;
    explanation = *std::move(given);
  });
  return explanation ? explanation->descriptors.at(0) : ExplainedDescriptor{};
}

TEST(Explain, ReportsThePathAndTheState) {
  World world(kRules);
  world.call("shop", {of({{"user", "alice"}, {"path", "/buy"}})}, 3);
  for (int i = 0; i < 2; ++i) {  // the second result is equal: nothing was taken
    const auto explanation = explained(world, "shop", of({{"user", "alice"}, {"path", "/buy"}}));
    ASSERT_EQ(explanation.steps.size(), 2U);
    EXPECT_EQ(explanation.steps[0].match, MatchKind::key);
    EXPECT_EQ(explanation.steps[0].place, "rules.yaml:3:5");
    EXPECT_EQ(explanation.steps[1].match, MatchKind::value);
    EXPECT_EQ(explanation.steps[1].place, "rules.yaml:5:9");
    EXPECT_EQ(explanation.end, WalkEnd::limit);
    ASSERT_TRUE(explanation.limit);
    EXPECT_EQ(explanation.limit->text, "5/min window");
    EXPECT_EQ(explanation.limit->name, "buying");
    EXPECT_EQ(explanation.limit->decision.remaining, 2);
    EXPECT_EQ(explanation.limit->counted_as, "shop.user.path_/buy");
    EXPECT_EQ(explanation.limit->counter, "weir1:{=shop:user=alice,path=/buy}:window/1min");
  }
  EXPECT_EQ(world.counts_of("shop.user.path_/buy").total, 3U);
}

TEST(Explain, ReportsWhyThereIsNoLimit) {
  World world(kRules);
  const auto why = [&](RateLimitDescriptor descriptor) {
    return explained(world, "shop", std::move(descriptor)).why;
  };
  EXPECT_THAT(why(of({{"user", "a"}})), HasSubstr("ends before the configuration does"));
  EXPECT_THAT(why(of({{"user", "a"}, {"path", "/x"}})),
              HasSubstr("no value, wildcard or key matches path=/x below user=a"));
  EXPECT_THAT(
      why(of({{"user", "a"}, {"path", "/buy"}, {"more", ""}})),
      HasSubstr("no descriptors below path=/buy, but the call continues (entries left: 1)"));
  EXPECT_THAT(why(of({{"user", "a"}, {"path", "/free"}})), HasSubstr("the call is not limited"));
  EXPECT_THAT(why(of({{"user", "a"}, {"path", "/img/1.png"}})), HasSubstr("unlimited"));
  EXPECT_THAT(why(of({{"path", "/buy"}})), HasSubstr("matches path=/buy below the domain"));
  EXPECT_THAT(why(of({})), HasSubstr("no entries"));
  EXPECT_THAT(why(limited(of({{"a", "b"}}), 1, Unit::day)), HasSubstr("brings its own limit"));
  const auto wild = explained(world, "shop", of({{"user", "a"}, {"path", "/img/1.png"}}));
  EXPECT_EQ(wild.steps[1].match, MatchKind::wildcard);
  EXPECT_EQ(wild.steps[1].pattern, "/img/*");
  EXPECT_THAT(explained(world, "shoe", of({{"user", "a"}})).why,
              HasSubstr("there is no domain \"shoe\""));
}

// Explain reports the metric name that a request would count in, and creates none.
TEST(Explain, NamesTheMetricsOfTheRequestAndCreatesNone) {
  World world(R"(domain: shop
descriptors:
  - { key: user, detailed_metric: true, rate_limit: { unit: day, requests_per_unit: 5 } }
  - key: tenant
    value_to_metric: true
    descriptors: [ { key: path, rate_limit: { unit: day, requests_per_unit: 5 } } ]
)");
  const std::vector<std::pair<RateLimitDescriptor, std::string>> all = {
      {of({{"user", "alice"}}), "shop.user_alice"},
      {of({{"tenant", "t"}, {"path", "/buy"}}), "shop.tenant_t.path"},
      {limited(of({{"user", "bob"}}), 1, Unit::day), "shop.user_bob"}};
  const std::size_t rules = world.service.counts().rules.size();
  for (const auto& [descriptor, name] : all) {
    EXPECT_EQ(explained(world, "shop", descriptor).limit->counted_as, name);
  }
  EXPECT_EQ(world.service.counts().rules.size(), rules);
  for (const auto& [descriptor, name] : all) {
    world.call("shop", {descriptor});
    EXPECT_EQ(world.counts_of(name).total, 1U);
  }
  EXPECT_EQ(world.service.counts().rules.size(), rules + all.size());
}

}  // namespace
}  // namespace weir::envoy
