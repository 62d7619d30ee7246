// Properties of any requests, on a manual clock.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "world.h"

namespace weir::envoy {
namespace {

using std::chrono::seconds;

// The limit of each key in a window of ten seconds.
constexpr std::string_view kRules = R"(
domain: d
descriptors:
  - { key: a, rate_limit: { per: 10s, requests_per_unit: 5 } }
  - { key: b, rate_limit: { per: 10s, requests_per_unit: 9 } }
  - { key: q, quota_mode: true, rate_limit: { per: 10s, requests_per_unit: 4 } }
  - { key: r, quota_mode: true, rate_limit: { per: 10s, requests_per_unit: 7 } }
  - { key: s, shadow_mode: true, rate_limit: { per: 10s, requests_per_unit: 3 } }
)";
const std::map<std::string, std::uint64_t> kLimits = {{"a", 5}, {"b", 9}, {"q", 4}, {"r", 7}};

struct Model {
  std::map<std::string, std::uint64_t> used;  // by counter
};

// Random requests of up to 40 descriptors, some with the same counter, against a simple model.
TEST(Charging, MatchesAModelAllOrNothing) {
  std::mt19937 random(7);
  World world(kRules);
  Model model;
  std::int64_t window = 0;
  int passed = 0;
  int refused = 0;
  for (int i = 0; i < 5'000; ++i) {
    if (random() % 50 == 0) {
      world.clock.advance(seconds{10});
      ++window;
      model.used.clear();
    }
    static const std::vector<std::string> keys = {"a", "b", "q", "r"};
    static const std::vector<std::string> values = {"1", "2", "3", "4", "5", "6"};
    std::vector<std::pair<std::string, std::string>> pairs;
    const std::size_t count = 1 + random() % (random() % 10 == 0 ? 40 : 4);
    const std::size_t kinds = 1 + random() % keys.size();
    for (std::size_t k = 0; k < count; ++k) {
      pairs.emplace_back(keys[random() % kinds], values[random() % values.size()]);
    }
    const std::uint32_t hits = 1 + random() % 3;
    // A descriptor sees the charges of earlier ones of its request.
    auto next = model.used;
    bool admits = true;
    bool has_quota = false;
    bool quota_admits = false;
    for (const auto& [key, value] : pairs) {
      std::uint64_t& used = next[key + value];
      const bool fits = used + hits <= kLimits.at(key);
      const bool is_quota = key == "q" || key == "r";
      if (fits) used += hits;
      if (!fits && !is_quota) admits = false;
      has_quota = has_quota || is_quota;
      quota_admits = quota_admits || (is_quota && fits);
    }
    if (has_quota && !quota_admits) admits = false;
    std::vector<RateLimitDescriptor> descriptors;
    for (const auto& [key, value] : pairs) descriptors.push_back(of({{key, value}}));
    const RateLimitResponse answer = world.call("d", descriptors, hits);
    ASSERT_EQ(answer.overall, admits ? Code::ok : Code::over_limit) << "call " << i;
    if (admits) model.used = std::move(next);
    ++(admits ? passed : refused);
    // After every decision, each counter equals the model's.
    for (const auto& [key, value] : pairs) {
      const RateLimitResponse look = world.call("d", {with_hits(of({{key, value}}), 0)});
      const std::uint64_t left = kLimits.at(key) - model.used[key + value];
      ASSERT_EQ(look.statuses[0].remaining, left) << "call " << i << ' ' << key << value;
    }
  }
  EXPECT_GT(passed, 200);
  EXPECT_GT(refused, 200);
}

// In envoyproxy/ratelimit's mode, each counter is charged on its own.
TEST(Charging, MatchesAModelInCompatMode) {
  std::mt19937 random(8);
  World world(kRules, {.as_envoyproxy = true});
  std::map<std::string, std::uint64_t> used;
  for (int i = 0; i < 3'000; ++i) {
    if (random() % 50 == 0) {
      world.clock.advance(seconds{10});
      used.clear();
    }
    static const std::vector<std::string> keys = {"a", "b"};
    std::vector<RateLimitDescriptor> descriptors;
    std::vector<std::string> names;
    for (std::size_t k = 0; k < 1 + random() % 20; ++k) names.push_back(keys[random() % 2]);
    const std::uint32_t hits = 1 + random() % 3;
    for (const std::string& name : names) descriptors.push_back(of({{name, "x"}}));
    const RateLimitResponse answer = world.call("d", descriptors, hits);
    bool over = false;
    for (std::size_t k = 0; k < names.size(); ++k) {
      const std::uint64_t count = used[names[k]] += hits;
      const std::uint64_t limit = kLimits.at(names[k]);
      over = over || count > limit;
      ASSERT_EQ(answer.statuses[k].code, count > limit ? Code::over_limit : Code::ok);
      ASSERT_EQ(answer.statuses[k].remaining, count > limit ? 0 : limit - count);
    }
    ASSERT_EQ(answer.overall, over ? Code::over_limit : Code::ok);
  }
}

// A shadow is charged when it admits and the request is admitted.
TEST(Charging, SkipsShadowsOfARefusedRequest) {
  World world(kRules);
  world.call("d", {of({{"a", "x"}})}, 5);
  EXPECT_EQ(world.call("d", {of({{"a", "x"}}), of({{"s", "x"}})}).overall, Code::over_limit);
  EXPECT_EQ(world.call("d", {of({{"s", "x"}})}).statuses[0].remaining, 2U);
}

// A refund is bounded by the count of the window.
TEST(Charging, RefundsAtMostWhatIsCounted) {
  for (const bool as_envoyproxy : {false, true}) {
    std::mt19937 random(9);
    World world(kRules, {.as_envoyproxy = as_envoyproxy});
    std::uint64_t used = 0;
    for (int i = 0; i < 2'000; ++i) {
      if (random() % 20 == 0) {
        world.clock.advance(seconds{10});
        used = 0;
      }
      const std::uint32_t hits = random() % 6;
      if (random() % 3 == 0) {
        world.call("d", {returning(of({{"b", "x"}}), hits)});
        used -= std::min<std::uint64_t>(hits, used);
      } else {
        const bool fits = used + hits <= 9;
        const RateLimitResponse answer = world.call("d", {with_hits(of({{"b", "x"}}), hits)});
        ASSERT_EQ(answer.overall, fits ? Code::ok : Code::over_limit);
        if (fits || as_envoyproxy) used += hits;
      }
      const RateLimitResponse look = world.call("d", {with_hits(of({{"b", "x"}}), 0)});
      ASSERT_EQ(look.statuses[0].remaining, used > 9 ? 0 : 9 - used);
    }
  }
}

// The same for a bucket.
TEST(Charging, RefundsABucketUpToFull) {
  World world(
      "domain: d\ndescriptors:\n"
      "  - { key: k, rate_limit: { unit: hour, requests_per_unit: 6, burst: 4 } }\n");
  world.call("d", {of({{"k", "x"}})}, 3);
  EXPECT_EQ(world.call("d", {returning(of({{"k", "x"}}), 2)}).statuses[0].remaining, 3U);
  EXPECT_EQ(world.call("d", {returning(of({{"k", "x"}}), 100)}).statuses[0].remaining, 4U);
  EXPECT_EQ(world.call("d", {of({{"k", "x"}})}, 5).overall, Code::over_limit);
  EXPECT_EQ(world.call("d", {of({{"k", "x"}})}, 4).overall, Code::ok);
}

// Both counters of a sliding window may be full.
TEST(Charging, RefundsAFullSlidingWindow) {
  World world(
      "domain: d\ndescriptors:\n"
      "  - { key: k, rate_limit: { unit: hour, requests_per_unit: 6, algorithm: sliding_window } "
      "}\n",
      {.as_envoyproxy = true});
  const RateLimitDescriptor k = of({{"k", "x"}});
  constexpr std::uint64_t many = std::uint64_t{1} << 40;
  world.call("d", {with_hits(k, many)});
  world.clock.advance(std::chrono::hours{1});
  world.call("d", {with_hits(k, many)});
  world.call("d", {returning(k, many)});
  // An hour later the first window no longer counts, and the second is empty.
  world.clock.advance(std::chrono::hours{1});
  EXPECT_EQ(world.call("d", {with_hits(k, 6)}).overall, Code::ok);
}

}  // namespace
}  // namespace weir::envoy
