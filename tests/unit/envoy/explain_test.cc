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

ExplainedDescriptor explained(World& world, std::string_view domain, Descriptor descriptor) {
  Call call{.domain = domain, .descriptors = {}};
  call.descriptors.push_back(std::move(descriptor));
  std::optional<Explanation> told;
  world.service.explain(call, world.link(), [&](Result<Explanation, Failure> given) {
    ASSERT_TRUE(given) << given.error().text;
    told = *std::move(given);
  });
  return told ? told->descriptors.at(0) : ExplainedDescriptor{};
}

TEST(ExplainTest, TellsTheWayAndTheState) {
  World world(kRules);
  world.call("shop", {of({{"user", "alice"}, {"path", "/buy"}})}, 3);
  for (int i = 0; i < 2; ++i) {  // it takes nothing
    const auto told = explained(world, "shop", of({{"user", "alice"}, {"path", "/buy"}}));
    ASSERT_EQ(told.steps.size(), 2U);
    EXPECT_EQ(told.steps[0].match, Match::key);
    EXPECT_EQ(told.steps[0].place, "rules.yaml:3:5");
    EXPECT_EQ(told.steps[1].match, Match::value);
    EXPECT_EQ(told.steps[1].place, "rules.yaml:5:9");
    EXPECT_EQ(told.end, End::limit);
    ASSERT_TRUE(told.limit);
    EXPECT_EQ(told.limit->text, "5/min window");
    EXPECT_EQ(told.limit->name, "buying");
    EXPECT_EQ(told.limit->decision.remaining, 2);
    EXPECT_EQ(told.limit->counted_as, "shop.user.path_/buy");
    EXPECT_EQ(told.limit->counter, "weir1:{=shop:user=alice,path=/buy}:window/1min");
  }
  EXPECT_EQ(world.counts_of("shop.user.path_/buy").total, 3U);
}

TEST(ExplainTest, TellsWhyThereIsNoLimit) {
  World world(kRules);
  const auto why = [&](Descriptor descriptor) {
    return explained(world, "shop", std::move(descriptor)).why;
  };
  EXPECT_THAT(why(of({{"user", "a"}})), HasSubstr("ends before the configuration does"));
  EXPECT_THAT(why(of({{"user", "a"}, {"path", "/x"}})),
              HasSubstr("neither value, wildcard nor key for path=/x below user=a"));
  EXPECT_THAT(why(of({{"user", "a"}, {"path", "/buy"}, {"more", ""}})),
              HasSubstr("no descriptors below path=/buy, and 1 more in the call"));
  EXPECT_THAT(why(of({{"user", "a"}, {"path", "/free"}})), HasSubstr("it is let through"));
  EXPECT_THAT(why(of({{"user", "a"}, {"path", "/img/1.png"}})), HasSubstr("unlimited"));
  EXPECT_THAT(why(of({{"path", "/buy"}})), HasSubstr("for path=/buy below the domain"));
  EXPECT_THAT(why(of({})), HasSubstr("no entries"));
  EXPECT_THAT(why(limited(of({{"a", "b"}}), 1, Unit::day)), HasSubstr("comes with the call"));
  const auto wild = explained(world, "shop", of({{"user", "a"}, {"path", "/img/1.png"}}));
  EXPECT_EQ(wild.steps[1].match, Match::wildcard);
  EXPECT_EQ(wild.steps[1].pattern, "/img/*");
  EXPECT_THAT(explained(world, "shoe", of({{"user", "a"}})).why,
              HasSubstr("there is no domain \"shoe\""));
}

// The name is that of what a call would count in; and only calls make names.
TEST(ExplainTest, NamesTheStatisticsOfTheCallAndAddsNone) {
  World world(R"(domain: shop
descriptors:
  - { key: user, detailed_metric: true, rate_limit: { unit: day, requests_per_unit: 5 } }
  - key: tenant
    value_to_metric: true
    descriptors: [ { key: path, rate_limit: { unit: day, requests_per_unit: 5 } } ]
)");
  const std::vector<std::pair<Descriptor, std::string>> all = {
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
