#include "envoy/walk.h"

#include <gtest/gtest.h>

#include <random>

#include "../allocations.h"
#include "world.h"

namespace weir::envoy {
namespace {

TEST(WildcardPattern, MatchesAnyTextForAStar) {
  EXPECT_TRUE(WildcardPattern("foo*").matches("foo"));
  EXPECT_TRUE(WildcardPattern("foo*").matches("foobar"));
  EXPECT_FALSE(WildcardPattern("foo*").matches("fo"));
  EXPECT_TRUE(WildcardPattern("*").matches(""));
  EXPECT_TRUE(WildcardPattern("*.pdf").matches(".pdf"));
  EXPECT_FALSE(WildcardPattern("*.pdf").matches("pdf"));
  EXPECT_TRUE(WildcardPattern("a*b*c").matches("abc"));
  EXPECT_TRUE(WildcardPattern("a*b*c").matches("a-b-b-c"));
  EXPECT_FALSE(WildcardPattern("a*b*c").matches("acb"));
  EXPECT_FALSE(WildcardPattern("ab*ba").matches("aba"));  // no text is matched twice
  EXPECT_TRUE(WildcardPattern("**").matches("x"));
}

constexpr std::string_view kTree = R"(
domain: d
descriptors:
  - { key: a, value: "1" }
  - { key: a, value: "1*", rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: a, value: "12*", rate_limit: { unit: hour, requests_per_unit: 2 } }
  - { key: a, rate_limit: { unit: hour, requests_per_unit: 3 } }
  - key: b
    rate_limit: { unit: hour, requests_per_unit: 4 }
    descriptors:
      - { key: c, value: x, rate_limit: { unit: hour, requests_per_unit: 5 } }
  - key: b
    value: y
    descriptors:
      - { key: c, value: z, rate_limit: { unit: hour, requests_per_unit: 6 } }
)";

WalkResult walked(const RuleSet& all, const RateLimitDescriptor& descriptor) {
  return walk(all.domains.at("d"), descriptor.entries);
}

TEST(RuleWalk, PrefersValueThenWildcardsThenKey) {
  const auto all = rules(kTree);
  EXPECT_EQ(walked(*all, of({{"a", "1"}})).end, WalkEnd::no_rule);
  EXPECT_EQ(walked(*all, of({{"a", "123"}})).node->rule->requests_per_unit, 1U);
  EXPECT_EQ(walked(*all, of({{"a", "2"}})).node->rule->requests_per_unit, 3U);
  EXPECT_EQ(walked(*all, of({{"a", ""}})).node->rule->requests_per_unit, 3U);
}

// As in envoyproxy/ratelimit, a pattern is also the value of its node.
TEST(RuleWalk, PrefersThePatternTextAsAValue) {
  const auto all = rules(kTree);
  const RateLimitDescriptor descriptor = of({{"a", "12*"}});
  EXPECT_EQ(walked(*all, descriptor).node->rule->requests_per_unit, 2U);
  EXPECT_EQ(step(all->domains.at("d").root, descriptor.entries[0]).match, MatchKind::value);
}

TEST(RuleWalk, DoesNotBacktrack) {
  const auto all = rules(kTree);
  // b without a value has an x, but b=y hides it.
  const WalkResult hidden = walked(*all, of({{"b", "y"}, {"c", "x"}}));
  EXPECT_EQ(hidden.end, WalkEnd::not_found);
  EXPECT_EQ(hidden.steps, 1U);
  EXPECT_EQ(walked(*all, of({{"b", "n"}, {"c", "x"}})).node->rule->requests_per_unit, 5U);
  EXPECT_EQ(walked(*all, of({{"b", "y"}, {"c", "z"}})).node->rule->requests_per_unit, 6U);
}

TEST(RuleWalk, FindsALimitOnlyAtTheLastEntry) {
  const auto all = rules(kTree);
  EXPECT_EQ(walked(*all, of({{"b", "n"}})).end, WalkEnd::limit);
  EXPECT_EQ(walked(*all, of({{"b", "y"}})).end, WalkEnd::no_rule);
  EXPECT_EQ(walked(*all, of({{"a", "2"}, {"more", ""}})).end, WalkEnd::too_long);
  EXPECT_EQ(walked(*all, of({{"b", "n"}, {"c", "nothing"}})).end, WalkEnd::not_found);
  EXPECT_EQ(walked(*all, of({})).end, WalkEnd::not_found);
}

TEST(RuleWalk, FindsOneOfTenThousandRulesWithoutAllocating) {
  std::string yaml = "domain: d\ndescriptors:\n";
  for (int i = 0; i < 10'000; ++i) {
    yaml += "  - { key: user, value: u" + std::to_string(i) +
            ", rate_limit: { unit: hour, requests_per_unit: " + std::to_string(i) + " } }\n";
  }
  const auto all = rules(yaml);
  EXPECT_EQ(all->count, 10'000U);
  const RateLimitDescriptor descriptor = of({{"user", "u9876"}});
  const auto before = allocations();
  const WalkResult found = walked(*all, descriptor);
  EXPECT_EQ(allocations(), before);
  EXPECT_EQ(found.node->rule->requests_per_unit, 9876U);
}

std::string counter(const RateLimitDescriptor& descriptor, std::string_view domain = "d") {
  Domain of_name;
  of_name.head = counter_head(domain);
  std::string name;
  append_counter(name, of_name, nullptr, descriptor.entries, "}:window/1min");
  return name;
}

TEST(CounterKey, IsReadable) {
  EXPECT_EQ(counter(of({{"user", "alice"}, {"path", "/buy"}}), "shop"),
            "weir1:{=shop:user=alice,path=/buy}:window/1min");
}

// With any bytes in keys and values.
TEST(CounterKey, IsUniqueForEachDescriptor) {
  std::mt19937 random(1);
  const std::vector<std::string> words = {
      "",    "a", "b", "a_b", "_", "=", ",", "a=b", "}", ":", "a,b", "%3D", std::string(1, '\0'),
      "\xff"};
  const auto word = [&]() -> const std::string& { return words[random() % words.size()]; };
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> seen;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::pair<std::string, std::string>> pairs{{"domain", word()}};
    const std::size_t count = random() % 4;
    for (std::size_t k = 0; k < count; ++k) pairs.emplace_back(word(), word());
    RateLimitDescriptor descriptor;
    for (std::size_t k = 1; k < pairs.size(); ++k) {
      descriptor.entries.push_back({pairs[k].first, pairs[k].second});
    }
    const auto [known, is_new] = seen.emplace(counter(descriptor, pairs[0].second), pairs);
    EXPECT_EQ(known->second, pairs);
  }
}

TEST(CounterKey, IsHashedIfLong) {
  const std::string value(5'000, 'v');
  const std::string name = counter(of({{"k", value}}));
  EXPECT_LT(name.size(), 150U);
  EXPECT_NE(name, counter(of({{"k", value + "v"}})));
  EXPECT_NE(name, counter(of({{"k", value}}), "e"));
}

// As in envoyproxy/ratelimit: dots separate levels, except for those of IPv4 addresses anywhere in
// the name.
TEST(MetricName, ContainsNoStatsdSyntax) {
  const std::map<std::string, std::string> names = {
      {"", ""},
      {"shop.user.path_/buy", "shop.user.path_/buy"},
      {"d.k_a:b|c", "d.k_a_b_c"},
      {"d.ip_10.20.30.40", "d.ip_10_20_30_40"},
      {"d.ip_10.20.30", "d.ip_10.20.30"},
      {"d.ip_1.2.3.4.5.6.7.8", "d.ip_1_2_3_4.5_6_7_8"},
      {"d.ip_1.2.3.4567.8.9.10", "d.ip_1_2_3_4567_8_9_10"},
      {"d.ip_12345.1.2.3456", "d.ip_12345_1_2_3456"},
      {"d.ip_1..2.3.4.5", "d.ip_1..2_3_4_5"},
      {"9.8.7.6:80", "9_8_7_6_80"},
      {"d.ip_999.999.999.999.", "d.ip_999_999_999_999."},
      {"d.ip_1.2.3.", "d.ip_1.2.3."}};
  for (const auto& [name, counted_as] : names) EXPECT_EQ(metric_name(name), counted_as);
}

}  // namespace
}  // namespace weir::envoy
