// The behavior of envoyproxy/ratelimit, from its own tests and documentation, as vectors of
// configuration and requests; and weir's default where it differs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <thread>

#include "world.h"

namespace weir::envoy {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;

constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();

std::vector<Code> codes_of(const RateLimitResponse& answer) {
  std::vector<Code> codes;
  for (const DescriptorStatus& status : answer.statuses) codes.push_back(status.code);
  return codes;
}
std::vector<std::uint32_t> remaining_of(const RateLimitResponse& answer) {
  std::vector<std::uint32_t> remaining;
  for (const DescriptorStatus& status : answer.statuses) remaining.push_back(status.remaining);
  return remaining;
}

struct Semantics {
  const char* name;
  bool as_envoyproxy;
  World::Store store;
};

void PrintTo(const Semantics& semantics, std::ostream* out) { *out << semantics.name; }

// Redis has its own clock: a vector must not cross the end of a window.
class EnvoyVectors : public ::testing::TestWithParam<Semantics> {
 protected:
  bool as_envoyproxy() const { return GetParam().as_envoyproxy; }
  bool on_redis() const { return GetParam().store == World::Store::redis; }

  void play(std::string_view yaml, const std::function<void(World&)>& vector,
            ServiceOptions options = {}) {
    options.as_envoyproxy = as_envoyproxy();
    if (!on_redis()) {
      World world(yaml, options);
      return vector(world);
    }
    const auto minute = [] {
      return std::chrono::floor<std::chrono::minutes>(std::chrono::system_clock::now());
    };
    // Each vector takes milliseconds.
    const auto in_minute = std::chrono::system_clock::now() - minute();
    if (in_minute > seconds{57}) std::this_thread::sleep_for(seconds{61} - in_minute);
    World world(yaml, options, World::Store::redis);
    vector(world);
  }
};

INSTANTIATE_TEST_SUITE_P(
    InEveryMode, EnvoyVectors,
    ::testing::Values(Semantics{"weir_in_memory", false, World::Store::memory},
                      Semantics{"weir_on_redis", false, World::Store::redis},
                      Semantics{"envoyproxy_in_memory", true, World::Store::memory},
                      Semantics{"envoyproxy_on_redis", true, World::Store::redis}),
    [](const auto& each) { return std::string{each.param.name}; });

// V1: which rule a descriptor finds.
constexpr std::string_view kBasic = R"(
domain: test-domain
descriptors:
  - key: key1
    value: value1
    descriptors:
      - { key: subkey1, rate_limit: { unit: second, requests_per_unit: 5 } }
      - { key: subkey1, value: subvalue1, rate_limit: { unit: SECOND, requests_per_unit: 10 } }
  - { key: key2, rate_limit: { unit: Minute, requests_per_unit: 20 } }
  - { key: key2, value: value2, rate_limit: { unit: minute, requests_per_unit: 30 } }
  - { key: key2, value: value3 }
  - { key: key3, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: key4, rate_limit: { unit: day, requests_per_unit: 1, name: key4_rate_limit } }
  - key: key5
    value: value5
    rate_limit: { unit: day, requests_per_unit: 15 }
    descriptors:
      - { key: subkey5, value: subvalue5, rate_limit: { unit: day, requests_per_unit: 25 } }
  - { key: key6, rate_limit: { unlimited: true } }
  - { key: key7, detailed_metric: true, rate_limit: { unit: minute, requests_per_unit: 70 } }
)";

TEST_P(EnvoyVectors, V1FindsTheRuleOfADescriptor) {
  play(kBasic, [](World& world) {
    const auto found = [&](RateLimitDescriptor descriptor) -> std::pair<std::uint32_t, Unit> {
      const RateLimitResponse answer = world.call("test-domain", {std::move(descriptor)});
      EXPECT_EQ(answer.overall, Code::ok);
      const DescriptorStatus& status = answer.statuses.at(0);
      if (!status.limit) {
        EXPECT_EQ(status.remaining, 0U);
        return {0, Unit::unknown};
      }
      return {status.limit->requests_per_unit, status.limit->unit};
    };
    const std::pair none{0U, Unit::unknown};
    EXPECT_EQ(found(of({{"key1", "something"}})), none);
    EXPECT_EQ(found(of({{"key1", "value1"}})), none);
    EXPECT_EQ(found(of({{"key2", "value2"}, {"subkey", "subvalue"}})), none);
    EXPECT_EQ(found(of({{"key5", "value5"}, {"subkey5", "subvalue"}})), none);
    EXPECT_EQ(found(of({{"key1", "value1"}, {"subkey1", "something"}})),
              (std::pair{5U, Unit::second}));
    EXPECT_EQ(found(of({{"key1", "value1"}, {"subkey1", "subvalue1"}})),
              (std::pair{10U, Unit::second}));
    EXPECT_EQ(found(of({{"key2", "something"}})), (std::pair{20U, Unit::minute}));
    EXPECT_EQ(found(of({{"key2", "value2"}})), (std::pair{30U, Unit::minute}));
    EXPECT_EQ(found(of({{"key2", "value3"}})), none);
    EXPECT_EQ(found(of({{"key3", "foo"}})), (std::pair{1U, Unit::hour}));
    const RateLimitResponse named = world.call("test-domain", {of({{"key4", "foo"}})});
    EXPECT_EQ(named.statuses[0].limit->name, "key4_rate_limit");
    EXPECT_EQ(named.statuses[0].limit->unit, Unit::day);
    const RateLimitResponse unlimited = world.call("test-domain", {of({{"key6", "foo"}})});
    EXPECT_FALSE(unlimited.statuses[0].limit);
    EXPECT_EQ(unlimited.statuses[0].remaining, kMost);
    EXPECT_EQ(found(of({{"key7", "unspecified_value"}})), (std::pair{70U, Unit::minute}));
    EXPECT_EQ(world.counts_of("test-domain.key7_unspecified_value").total, 1U);
    EXPECT_EQ(world.counts_of("test-domain.key1_value1.subkey1").total, 1U);
    EXPECT_EQ(world.call("foo_domain", {of({{"key2", "x"}})}).overall, Code::ok);
    EXPECT_EQ(world.service.counts().domain_not_found, 1U);
    EXPECT_EQ(found(limited(of({{"key1", "value1"}, {"subkey1", "something"}}), 10, Unit::day)),
              (std::pair{10U, Unit::day}));
    EXPECT_EQ(world.counts_of("test-domain.key1_value1.subkey1_something").total, 1U);
  });
}

// V2: wildcards.
TEST_P(EnvoyVectors, V2MatchesWildcards) {
  play(R"(
domain: wild-domain
descriptors:
  - { key: wild, value: foo*, rate_limit: { unit: minute, requests_per_unit: 20 } }
  - { key: noWild, value: foo, rate_limit: { unit: minute, requests_per_unit: 20 } }
  - { key: noVal, rate_limit: { unit: minute, requests_per_unit: 20 } }
  - { key: midWild, value: bar*b, rate_limit: { unit: minute, requests_per_unit: 20 } }
  - { key: multiWild, value: foo*bar*baz, rate_limit: { unit: minute, requests_per_unit: 10 } }
  - key: nestedWild
    value: val1
    descriptors:
      - { key: wild, value: goo*, rate_limit: { unit: minute, requests_per_unit: 20 } }
)",
       [](World& world) {
         const auto is_limited = [&](RateLimitDescriptor descriptor) {
           return world.call("wild-domain", {std::move(descriptor)}).statuses[0].limit.has_value();
         };
         for (const char* value : {"foo1", "foo2", "foo"}) {
           const RateLimitResponse answer = world.call("wild-domain", {of({{"wild", value}})});
           EXPECT_EQ(answer.statuses[0].remaining, 19U) << value;  // a counter for each value
         }
         EXPECT_EQ(world.counts_of("wild-domain.wild_foo*").total, 3U);
         EXPECT_TRUE(is_limited(of({{"nestedWild", "val1"}, {"wild", "goo2"}})));
         for (const char* value : {"barab", "bar123b", "barb"}) {
           EXPECT_TRUE(is_limited(of({{"midWild", value}}))) << value;
         }
         for (const char* value : {"foo123bar456baz", "foobarbaz"}) {
           EXPECT_TRUE(is_limited(of({{"multiWild", value}}))) << value;
         }
         EXPECT_FALSE(is_limited(of({{"wild", "bar"}})));
         EXPECT_FALSE(is_limited(of({{"noWild", "foo1"}})));
         EXPECT_FALSE(is_limited(of({{"midWild", "bara"}})));
         EXPECT_FALSE(is_limited(of({{"midWild", "xbarb"}})));
         EXPECT_FALSE(is_limited(of({{"multiWild", "foo123baz"}})));
         EXPECT_FALSE(is_limited(of({{"multiWild", "bar456baz"}})));
       });
}

constexpr std::string_view kAnother = R"(
domain: another
descriptors:
  - { key: key2, rate_limit: { unit: minute, requests_per_unit: 20 } }
  - { key: key3, rate_limit: { unit: hour, requests_per_unit: 10 } }
)";

// V3: a limit and what is counted of it.
TEST_P(EnvoyVectors, V3CountsDownAndRefuses) {
  play(kAnother, [](World& world) {
    for (std::uint32_t i = 1; i <= 25; ++i) {
      const RateLimitResponse answer = world.call("another", {of({{"key2", "R"}})}, 1);
      const bool over = i > 20;
      EXPECT_EQ(answer.overall, over ? Code::over_limit : Code::ok);
      EXPECT_EQ(answer.statuses[0].code, over ? Code::over_limit : Code::ok);
      EXPECT_EQ(answer.statuses[0].remaining, over ? 0U : 20 - i);
    }
    const RuleCounts counts = world.counts_of("another.key2");
    EXPECT_EQ(counts.total, 25U);
    EXPECT_EQ(counts.over, 5U);
    EXPECT_EQ(counts.within, 20U);
    EXPECT_EQ(counts.near, 4U);
    EXPECT_EQ(counts.shadow, 0U);
  });
}

// V4: two limits in one request. If the second refuses, envoyproxy/ratelimit still counts under the
// first.
TEST_P(EnvoyVectors, V4ChargesSeveralDescriptors) {
  play(kAnother, [this](World& world) {
    for (std::uint32_t i = 1; i <= 15; ++i) {
      const RateLimitResponse answer =
          world.call("another", {of({{"key2", "R"}}), of({{"key3", "R"}})});
      const bool over = i > 10;
      const std::uint32_t first = as_envoyproxy() ? 20 - i : 20 - std::min(i, 10U);
      EXPECT_EQ(answer.overall, over ? Code::over_limit : Code::ok);
      EXPECT_THAT(codes_of(answer), ElementsAre(Code::ok, over ? Code::over_limit : Code::ok));
      EXPECT_THAT(remaining_of(answer), ElementsAre(first, over ? 0U : 10 - i));
    }
  });
}

// V5: one counter for all values of a pattern.
TEST_P(EnvoyVectors, V5SharesAThreshold) {
  play(R"(
domain: d
descriptors:
  - { key: files, value: files/*, share_threshold: true, rate_limit: { unit: hour, requests_per_unit: 10 } }
  - { key: files_no_share, value: files_no_share/*, rate_limit: { unit: hour, requests_per_unit: 10 } }
  - { key: file, value: test1, rate_limit: { unit: minute, requests_per_unit: 50 } }
  - { key: file, value: test*, share_threshold: true, rate_limit: { unit: minute, requests_per_unit: 100 } }
)",
       [](World& world) {
         for (std::uint32_t i = 1; i <= 10; ++i) {
           const RateLimitResponse answer = world.call("d", {of({{"files", "files/a.pdf"}})});
           EXPECT_THAT(remaining_of(answer), ElementsAre(10 - i));
         }
         const RateLimitResponse refused = world.call("d", {of({{"files", "files/b.csv"}})});
         EXPECT_EQ(refused.overall, Code::over_limit);
         EXPECT_THAT(remaining_of(refused), ElementsAre(0U));
         EXPECT_EQ(world.counts_of("d.files_files/*").total, 11U);
         for (const char* value : {"files_no_share/a", "files_no_share/b", "files_no_share/"}) {
           const RateLimitResponse answer = world.call("d", {of({{"files_no_share", value}})});
           EXPECT_THAT(remaining_of(answer), ElementsAre(9U));
         }
         EXPECT_THAT(remaining_of(world.call("d", {of({{"file", "test1"}})})), ElementsAre(49U));
         EXPECT_THAT(remaining_of(world.call("d", {of({{"file", "test2"}})})), ElementsAre(99U));
         EXPECT_THAT(remaining_of(world.call("d", {of({{"file", "test3"}})})), ElementsAre(98U));
       });
}

// V6: a shadow never refuses.
TEST_P(EnvoyVectors, V6NeverRefusesInShadowMode) {
  play(R"(
domain: d
descriptors:
  - key: foo
    descriptors:
      - { key: baz, value: shady, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 3 } }
      - { key: baz, value: not-so-shady, rate_limit: { unit: minute, requests_per_unit: 3 } }
)",
       [](World& world) {
         for (std::uint32_t i = 1; i <= 6; ++i) {
           const RateLimitResponse shady =
               world.call("d", {of({{"foo", "pelle"}, {"baz", "shady"}})});
           EXPECT_EQ(shady.overall, Code::ok);
           EXPECT_THAT(codes_of(shady), ElementsAre(Code::ok));
           EXPECT_THAT(remaining_of(shady), ElementsAre(i < 3 ? 3 - i : 0U));
           const RateLimitResponse other =
               world.call("d", {of({{"foo", "pelle"}, {"baz", "not-so-shady"}})});
           EXPECT_EQ(other.overall, i > 3 ? Code::over_limit : Code::ok);
         }
         const RuleCounts counts = world.counts_of("d.foo.baz_shady");
         EXPECT_EQ(counts.total, 6U);
         EXPECT_EQ(counts.shadow, 3U);
         EXPECT_EQ(counts.over, 3U);
         EXPECT_EQ(world.counts_of("d.foo.baz_not-so-shady").shadow, 0U);
       });
}

constexpr std::string_view kQuotas = R"(
domain: d
descriptors:
  - { key: service, value: service_1, quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: service, value: service_2, quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 4 } }
)";

// V8: quotas refuse only together.
TEST_P(EnvoyVectors, V8RefusesByQuotasOnlyTogether) {
  play(kQuotas, [](World& world) {
    const auto call = [&] {
      return world.call("d", {of({{"service", "service_1"}}), of({{"service", "service_2"}})});
    };
    EXPECT_EQ(call().overall, Code::ok);
    const RateLimitResponse second = call();
    EXPECT_EQ(second.overall, Code::ok);
    EXPECT_THAT(codes_of(second), ElementsAre(Code::over_limit, Code::ok));
    const RateLimitResponse third = call();
    EXPECT_EQ(third.overall, Code::over_limit);
    EXPECT_THAT(codes_of(third), ElementsAre(Code::over_limit, Code::over_limit));
  });
}

// V10: quotas beside others.
TEST_P(EnvoyVectors, V10DecidesQuotasBesideOtherLimits) {
  play(kQuotas, [this](World& world) {
    const auto both = [&](std::string_view user) {
      return world.call("d", {of({{"user", user}}), of({{"service", "service_2"}})});
    };
    EXPECT_EQ(both("a").overall, Code::ok);
    EXPECT_EQ(both("a").overall, Code::ok);
    // The only quota is over: the request is refused, although the other limit has room.
    const RateLimitResponse over = both("a");
    EXPECT_EQ(over.overall, Code::over_limit);
    EXPECT_THAT(codes_of(over), ElementsAre(Code::ok, Code::over_limit));
    // Refused hits are counted in compat mode only.
    EXPECT_THAT(remaining_of(over), ElementsAre(as_envoyproxy() ? 1U : 2U, 0U));
    const RateLimitResponse alone = world.call("d", {of({{"user", "a"}})});
    EXPECT_THAT(remaining_of(alone), ElementsAre(as_envoyproxy() ? 0U : 1U));
    // A limit is over, and a quota is not.
    world.call("d", {of({{"user", "b"}})}, 4);
    const RateLimitResponse other =
        world.call("d", {of({{"user", "b"}}), of({{"service", "service_1"}})});
    EXPECT_EQ(other.overall, Code::over_limit);
    EXPECT_THAT(codes_of(other), ElementsAre(Code::over_limit, Code::ok));
  });
}

// V10 in the service's shadow mode: statuses still report what each limit would do.
TEST_P(EnvoyVectors, V10NeverRefusesInTheServicesShadowMode) {
  play(kQuotas,
       [this](World& world) {
         const auto both = [&](std::uint32_t hits) {
           return world.call("d", {of({{"user", "a"}}), of({{"service", "service_2"}})}, hits);
         };
         EXPECT_THAT(remaining_of(both(2)), ElementsAre(2U, 0U));
         EXPECT_EQ(world.service.counts().shadow, 0U);
         const RateLimitResponse over = both(1);  // the quota
         EXPECT_EQ(over.overall, Code::ok);
         EXPECT_THAT(codes_of(over), ElementsAre(Code::ok, Code::over_limit));
         // it passed: admitting limits are charged
         EXPECT_THAT(remaining_of(over), ElementsAre(1U, 0U));
         const RateLimitResponse both_over = both(2);
         EXPECT_EQ(both_over.overall, Code::ok);
         EXPECT_THAT(codes_of(both_over), ElementsAre(Code::over_limit, Code::over_limit));
         EXPECT_THAT(remaining_of(both_over), ElementsAre(as_envoyproxy() ? 0U : 1U, 0U));
         EXPECT_EQ(world.service.counts().shadow, 2U);
         EXPECT_EQ(world.counts_of("d.user").shadow, 0U);  // that counter is about rules
         EXPECT_EQ(world.counts_of("d.user").over, as_envoyproxy() ? 1U : 2U);
       },
       {.shadow_mode = true});
}

// All limits are quotas: they refuse only together.
TEST_P(EnvoyVectors, V10AppliesQuotaModeToAllRules) {
  play(kAnother,
       [](World& world) {
         world.call("another", {of({{"key3", "x"}})}, 10);
         const RateLimitResponse one =
             world.call("another", {of({{"key2", "x"}}), of({{"key3", "x"}})});
         EXPECT_EQ(one.overall, Code::ok);
         EXPECT_THAT(codes_of(one), ElementsAre(Code::ok, Code::over_limit));
         EXPECT_THAT(remaining_of(one), ElementsAre(19U, 0U));
         EXPECT_EQ(world.call("another", {of({{"key3", "x"}})}).overall, Code::over_limit);
       },
       {.quota_mode = true});
}

// A descriptor without a limit, or with a replaced rule, counts as a quota with room.
TEST_P(EnvoyVectors, QuotaModeAppliesToDescriptorsWithoutALimit) {
  play(R"(
domain: d
descriptors:
  - { key: reg, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: old, rate_limit: { unit: hour, requests_per_unit: 0, name: old } }
  - { key: new, rate_limit: { unit: hour, requests_per_unit: 1, replaces: [ { name: old } ] } }
  - { key: free, rate_limit: { unlimited: true } }
  - { key: shady, shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 0 } }
)",
       [](World& world) {
         const auto twice = [&](const RateLimitDescriptor& limited,
                                const RateLimitDescriptor& beside) {
           EXPECT_EQ(world.call("d", {limited, beside}).overall, Code::ok);
           return world.call("d", {limited, beside});
         };
         const RateLimitResponse unmatched = twice(of({{"reg", "1"}}), of({{"none", "1"}}));
         EXPECT_EQ(unmatched.overall, Code::ok);
         EXPECT_THAT(codes_of(unmatched), ElementsAre(Code::over_limit, Code::ok));
         EXPECT_EQ(twice(of({{"new", "1"}}), of({{"old", "1"}})).overall, Code::ok);
         EXPECT_EQ(twice(of({{"reg", "2"}}), of({{"shady", "1"}})).overall, Code::ok);
         // An unlimited rule is not a quota.
         EXPECT_EQ(twice(of({{"reg", "3"}}), of({{"free", "1"}})).overall, Code::over_limit);
         EXPECT_EQ(world.call("d", {of({{"reg", "1"}})}).overall, Code::over_limit);
       },
       {.quota_mode = true});
}

// A quota in shadow mode always has room.
TEST_P(EnvoyVectors, AShadowQuotaAlwaysHasRoom) {
  play(R"(
domain: d
descriptors:
  - { key: qa, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: qs, quota_mode: true, shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: shady, shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 0 } }
)",
       [](World& world) {
         const std::vector<RateLimitDescriptor> both{of({{"qa", "1"}}), of({{"qs", "1"}})};
         EXPECT_EQ(world.call("d", both).overall, Code::ok);
         const RateLimitResponse second = world.call("d", both);
         EXPECT_EQ(second.overall, Code::ok);
         EXPECT_THAT(codes_of(second), ElementsAre(Code::over_limit, Code::ok));
         EXPECT_EQ(world.counts_of("d.qs").shadow, 1U);
         // A shadow that is not a quota does not help.
         const std::vector<RateLimitDescriptor> beside{of({{"qa", "1"}}), of({{"shady", "1"}})};
         EXPECT_EQ(world.call("d", beside).overall, Code::over_limit);
       });
}

// V11: unlimited, unmatched and limited.
TEST_P(EnvoyVectors, V11AllowsUnlimitedRules) {
  play(R"(
domain: d
descriptors:
  - { key: foo, value: bar, rate_limit: { unit: minute, requests_per_unit: 10 } }
  - { key: baz, value: qux, rate_limit: { unlimited: true } }
)",
       [](World& world) {
         const RateLimitResponse answer = world.call(
             "d", {of({{"foo", "bar"}}), of({{"hello", "world"}}), of({{"baz", "qux"}})});
         EXPECT_EQ(answer.overall, Code::ok);
         EXPECT_THAT(codes_of(answer), ElementsAre(Code::ok, Code::ok, Code::ok));
         EXPECT_THAT(remaining_of(answer), ElementsAre(9U, 0U, kMost));
         EXPECT_TRUE(answer.statuses[0].limit);
         EXPECT_FALSE(answer.statuses[1].limit);
         EXPECT_FALSE(answer.statuses[2].limit);
         EXPECT_FALSE(answer.statuses[1].until_reset);
       });
}

struct Near {
  std::uint32_t limit;
  std::uint32_t before;
  std::uint32_t hits;
  std::uint64_t over;
  std::uint64_t near;
};

// V12: near the limit is above four fifths of it.
TEST_P(EnvoyVectors, V12CountsHitsNearTheLimit) {
  const std::vector<Near> cases = {
      {15, 10, 1, 0, 0}, {15, 12, 1, 0, 1}, {15, 15, 1, 1, 0}, {20, 2, 3, 0, 0},  {20, 16, 3, 0, 3},
      {20, 19, 3, 2, 1}, {20, 15, 7, 2, 4}, {8, 5, 2, 0, 1},   {10, 10, 3, 3, 0}, {10, 27, 3, 3, 0},
  };
  for (const Near& each : cases) {
    const std::string yaml =
        "domain: d\ndescriptors:\n  - { key: k, rate_limit: { unit: hour, requests_per_unit: " +
        std::to_string(each.limit) + " } }\n";
    play(yaml, [&](World& world) {
      for (std::uint32_t i = 0; i < each.before; ++i) world.call("d", {of({{"k", "v"}})});
      const RuleCounts before = world.counts_of("d.k");
      const RateLimitResponse answer = world.call("d", {of({{"k", "v"}})}, each.hits);
      const RuleCounts after = world.counts_of("d.k");
      const bool over = each.before + each.hits > each.limit;
      EXPECT_EQ(answer.overall, over ? Code::over_limit : Code::ok);
      EXPECT_EQ(after.total - before.total, each.hits);
      // By default all refused hits are over the limit, as none of them is counted.
      const std::uint64_t expected = as_envoyproxy() || !over ? each.over : each.hits;
      EXPECT_EQ(after.over - before.over, expected) << each.limit << ' ' << each.before;
      EXPECT_EQ(after.near - before.near, as_envoyproxy() || !over ? each.near : 0U);
      EXPECT_EQ(after.within - before.within, over ? 0U : each.hits);
    });
  }
}

// V13: limits of 15 and 14 an hour, 13 counted of each, and a call of 2.
TEST_P(EnvoyVectors, V13RefusesIfOneOfTwoRefuses) {
  play(R"(
domain: d
descriptors:
  - { key: a, rate_limit: { unit: hour, requests_per_unit: 15 } }
  - { key: b, rate_limit: { unit: hour, requests_per_unit: 14 } }
)",
       [this](World& world) {
         world.call("d", {of({{"a", "x"}}), of({{"b", "x"}})}, 13);
         const RateLimitResponse answer = world.call("d", {of({{"a", "x"}}), of({{"b", "x"}})}, 2);
         EXPECT_EQ(answer.overall, Code::over_limit);
         EXPECT_THAT(codes_of(answer), ElementsAre(Code::ok, Code::over_limit));
         // As envoyproxy/ratelimit with STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT, the first is not
         // charged. Neither is the second, of which one hit is left.
         EXPECT_THAT(remaining_of(answer),
                     as_envoyproxy() ? ElementsAre(0U, 0U) : ElementsAre(2U, 1U));
       });
}

// V15: a nested limit beside a limit for all values.
TEST_P(EnvoyVectors, V15CountsNestedAndPlainDescriptors) {
  play(R"(
domain: messaging
descriptors:
  - key: message_type
    value: marketing
    descriptors:
      - { key: to_number, rate_limit: { unit: day, requests_per_unit: 5 } }
  - { key: to_number, rate_limit: { unit: day, requests_per_unit: 100 } }
)",
       [this](World& world) {
         const auto call = [&] {
           return world.call("messaging", {of({{"message_type", "marketing"}, {"to_number", "N"}}),
                                           of({{"to_number", "N"}})});
         };
         for (std::uint32_t i = 1; i <= 5; ++i) {
           EXPECT_THAT(remaining_of(call()), ElementsAre(5 - i, 100 - i));
         }
         const RateLimitResponse sixth = call();
         EXPECT_EQ(sixth.overall, Code::over_limit);
         EXPECT_THAT(codes_of(sixth), ElementsAre(Code::over_limit, Code::ok));
         EXPECT_THAT(remaining_of(sixth), ElementsAre(0U, as_envoyproxy() ? 94U : 95U));
       });
}

// hits_addend at both levels.
TEST_P(EnvoyVectors, HitsMayBeSetOnBothLevels) {
  play(kAnother, [this](World& world) {
    const auto left = [&](std::vector<RateLimitDescriptor> descriptors, std::uint32_t hits) {
      return remaining_of(world.call("another", std::move(descriptors), hits));
    };
    EXPECT_THAT(left({of({{"key2", "R"}})}, 0), ElementsAre(19U));  // the default is 1
    EXPECT_THAT(left({of({{"key2", "R"}})}, 4), ElementsAre(15U));
    EXPECT_THAT(left({with_hits(of({{"key2", "R"}}), 5), of({{"key3", "R"}})}, 2),
                ElementsAre(10U, 8U));
    EXPECT_THAT(left({with_hits(of({{"key2", "R"}}), 0)}, 3), ElementsAre(10U));  // a peek
    EXPECT_THAT(left({of({{"key2", "R"}})}, 10), ElementsAre(0U));
    // A count equal to the limit is not over it.
    const RateLimitResponse look = world.call("another", {with_hits(of({{"key2", "R"}}), 0)});
    EXPECT_EQ(look.overall, Code::ok);
    EXPECT_EQ(world.call("another", {of({{"key2", "R"}})}).overall, Code::over_limit);
    const RateLimitResponse beyond = world.call("another", {with_hits(of({{"key2", "R"}}), 0)});
    EXPECT_EQ(beyond.overall, as_envoyproxy() ? Code::over_limit : Code::ok);
  });
}

TEST_P(EnvoyVectors, HitsMayExceedEveryLimit) {
  play(kAnother, [](World& world) {
    const auto most = std::numeric_limits<std::uint64_t>::max();
    const RateLimitResponse answer = world.call("another", {with_hits(of({{"key2", "R"}}), most)});
    EXPECT_EQ(answer.overall, Code::over_limit);
  });
}

// is_negative_hits: a refund of at most what this window counts.
TEST_P(EnvoyVectors, NegativeHitsRefundWhatIsCounted) {
  play(kAnother, [](World& world) {
    const auto left = [&](RateLimitDescriptor descriptor) {
      return remaining_of(world.call("another", {std::move(descriptor)}));
    };
    EXPECT_THAT(left(returning(of({{"key2", "R"}}), 7)), ElementsAre(20U));
    EXPECT_THAT(left(with_hits(of({{"key2", "R"}}), 12)), ElementsAre(8U));
    EXPECT_THAT(left(returning(of({{"key2", "R"}}), 5)), ElementsAre(13U));
    EXPECT_THAT(left(returning(of({{"key2", "R"}}), 1000)), ElementsAre(20U));
    EXPECT_THAT(left(with_hits(of({{"key2", "R"}}), 20)), ElementsAre(0U));
    const RateLimitResponse over = world.call("another", {of({{"key2", "R"}})});
    EXPECT_EQ(over.overall, Code::over_limit);
  });
}

// If refused hits are counted, the hits beyond the limit are refunded first.
TEST_P(EnvoyVectors, NegativeHitsRefundRefusedHitsFirst) {
  play(kAnother, [this](World& world) {
    world.call("another", {of({{"key3", "R"}})}, 10);
    world.call("another", {of({{"key3", "R"}})}, 5);
    const RateLimitResponse answer = world.call("another", {returning(of({{"key3", "R"}}), 7)});
    EXPECT_EQ(answer.overall, Code::ok);
    EXPECT_THAT(remaining_of(answer), ElementsAre(as_envoyproxy() ? 2U : 7U));
  });
}

TEST_P(EnvoyVectors, ARefusedRequestRefundsNothing) {
  play(kAnother, [this](World& world) {
    world.call("another", {of({{"key2", "R"}}), of({{"key3", "R"}})}, 10);
    const RateLimitResponse answer =
        world.call("another", {of({{"key3", "R"}}), returning(of({{"key2", "R"}}), 4)});
    EXPECT_EQ(answer.overall, Code::over_limit);
    EXPECT_THAT(remaining_of(answer), ElementsAre(0U, as_envoyproxy() ? 14U : 10U));
  });
}

// A limit of the request counts separately, by its unit.
TEST_P(EnvoyVectors, LimitsOfTheRequestCountSeparately) {
  play(kAnother, [](World& world) {
    const auto call = [&](std::uint32_t requests, Unit unit) {
      return world.call("another", {limited(of({{"key2", "R"}}), requests, unit)});
    };
    EXPECT_THAT(remaining_of(call(2, Unit::hour)), ElementsAre(1U));
    EXPECT_THAT(remaining_of(call(2, Unit::hour)), ElementsAre(0U));
    EXPECT_EQ(call(2, Unit::hour).overall, Code::over_limit);
    EXPECT_THAT(remaining_of(call(2, Unit::day)), ElementsAre(1U));
    EXPECT_EQ(call(0, Unit::year).overall, Code::over_limit);
    const auto strange = world.ask("another", {limited(of({{"key2", "R"}}), 1, Unit::unknown)});
    ASSERT_FALSE(strange);
    EXPECT_FALSE(strange.error().store);
    // Without a known domain it is not applied.
    EXPECT_EQ(world.call("other", {limited(of({{"key2", "R"}}), 0, Unit::hour)}).overall, Code::ok);
  });
}

TEST_P(EnvoyVectors, ZeroPerUnitAlwaysRefuses) {
  play(
      "domain: d\ndescriptors:\n"
      "  - { key: k, rate_limit: { unit: minute, requests_per_unit: 0 } }\n"
      "  - { key: b, rate_limit: { unit: minute, requests_per_unit: 0, algorithm: token_bucket } }",
      [](World& world) {
        for (const char* key : {"k", "b"}) {
          const RateLimitResponse answer = world.call("d", {of({{key, "v"}})});
          EXPECT_EQ(answer.overall, Code::over_limit);
          EXPECT_THAT(remaining_of(answer), ElementsAre(0U));
        }
      });
}

// A replaced rule keeps its counter unchanged.
TEST_P(EnvoyVectors, AReplacedRuleKeepsItsCounter) {
  play(R"(
domain: d
descriptors:
  - { key: all, rate_limit: { unit: hour, requests_per_unit: 1, name: all } }
  - { key: paid, rate_limit: { unit: hour, requests_per_unit: 5, name: paid, replaces: [ { name: all } ] } }
)",
       [](World& world) {
         for (std::uint32_t i = 1; i <= 5; ++i) {
           const RateLimitResponse answer =
               world.call("d", {of({{"all", "x"}}), of({{"paid", "x"}})});
           EXPECT_EQ(answer.overall, Code::ok);
           EXPECT_FALSE(answer.statuses[0].limit);
           EXPECT_THAT(remaining_of(answer), ElementsAre(0U, 5 - i));
         }
         EXPECT_THAT(remaining_of(world.call("d", {of({{"all", "x"}})})), ElementsAre(0U));
         EXPECT_EQ(world.call("d", {of({{"all", "x"}})}).overall, Code::over_limit);
       });
}

TEST_P(EnvoyVectors, AReplacedUnlimitedRuleStaysUnlimited) {
  play(R"(
domain: d
descriptors:
  - { key: free, rate_limit: { unlimited: true, name: free } }
  - { key: paid, rate_limit: { unit: hour, requests_per_unit: 5, replaces: [ { name: free } ] } }
)",
       [](World& world) {
         const RateLimitResponse answer =
             world.call("d", {of({{"free", "x"}}), of({{"paid", "x"}})});
         EXPECT_THAT(remaining_of(answer), ElementsAre(kMost, 4U));
       });
}

// A rule in shadow_mode counts the hits that did not fit, as every rule.
TEST_P(EnvoyVectors, ShadowMetricsCountHitsOverTheLimit) {
  play(R"(
domain: d
descriptors:
  - { key: k, shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 3 } }
)",
       [this](World& world) {
         for (int i = 0; i < 2; ++i) world.call("d", {of({{"k", "x"}})}, 2);
         const RuleCounts counts = world.counts_of("d.k");
         EXPECT_EQ(counts.total, 4U);
         EXPECT_EQ(counts.over, as_envoyproxy() ? 1U : 2U);
         EXPECT_EQ(counts.shadow, counts.over);
       });
}

TEST_P(EnvoyVectors, MetricNamesMatchForEmptyValues) {
  play(R"(
domain: d
descriptors:
  - { key: detailed, detailed_metric: true, rate_limit: { unit: hour, requests_per_unit: 3 } }
  - { key: told, value_to_metric: true, rate_limit: { unit: hour, requests_per_unit: 3 } }
  - key: shared
    value: x*
    share_threshold: true
    descriptors:
      - { key: k, detailed_metric: true, rate_limit: { unit: hour, requests_per_unit: 3 } }
)",
       [](World& world) {
         world.call("d",
                    {of({{"detailed", ""}}), of({{"told", ""}}), of({{"shared", "xy"}, {"k", ""}}),
                     limited(of({{"own", ""}}), 1, Unit::day)});
         for (const char* name : {"d.detailed_", "d.told", "d.shared_x*.k", "d.own"}) {
           EXPECT_EQ(world.counts_of(name).total, 1U) << name;
         }
       });
}

TEST_P(EnvoyVectors, MetricNamesContainNoStatsdSyntax) {
  play(R"(
domain: d:1
descriptors:
  - { key: detailed, detailed_metric: true, rate_limit: { unit: hour, requests_per_unit: 3 } }
  - { key: told, value_to_metric: true, rate_limit: { unit: hour, requests_per_unit: 3 } }
  - { key: plain, value: 'a|b', rate_limit: { unit: hour, requests_per_unit: 3 } }
  - { key: plain, value: 'a:b', rate_limit: { unit: hour, requests_per_unit: 3 } }
)",
       [](World& world) {
         const RateLimitResponse answer =
             world.call("d:1", {of({{"detailed", "10.0.0.1"}}), of({{"told", "[::1]:80"}}),
                                of({{"plain", "a|b"}}), of({{"plain", "a:b"}}),
                                limited(of({{"own", "1.2.3.4.5"}}), 1, Unit::day)});
         EXPECT_THAT(remaining_of(answer), ElementsAre(2U, 2U, 2U, 2U, 0U));
         for (const char* name :
              {"d_1.detailed_10_0_0_1", "d_1.told_[__1]_80", "d_1.own_1_2_3_4.5"}) {
           EXPECT_EQ(world.counts_of(name).total, 1U) << name;
         }
         // Two rules with one metric name.
         EXPECT_EQ(world.counts_of("d_1.plain_a_b").total, 2U);
       });
}

// The same counter twice in one request is charged twice.
TEST_P(EnvoyVectors, TheSameDescriptorTwiceIsChargedTwice) {
  play(kAnother, [this](World& world) {
    const auto twice = [&] {
      return world.call("another", {of({{"key3", "R"}}), of({{"key3", "R"}})}, 3);
    };
    EXPECT_THAT(remaining_of(twice()), ElementsAre(7U, 4U));
    const RateLimitResponse refused = twice();
    EXPECT_EQ(refused.overall, Code::over_limit);
    EXPECT_THAT(codes_of(refused), ElementsAre(Code::ok, Code::over_limit));
    const RateLimitResponse look = world.call("another", {with_hits(of({{"key3", "R"}}), 0)});
    EXPECT_THAT(remaining_of(look), ElementsAre(as_envoyproxy() ? 0U : 4U));
  });
}

// After a refund, no status reports a state from before it.
TEST_P(EnvoyVectors, StatusesOfOneCounterAgreeAfterARefusal) {
  play("domain: d\ndescriptors: [ { key: k, rate_limit: { unit: hour, requests_per_unit: 2 } } ]\n",
       [this](World& world) {
         const RateLimitDescriptor k = of({{"k", "x"}});
         const RateLimitResponse refused = world.call("d", {k, k, k});
         EXPECT_EQ(refused.overall, Code::over_limit);
         EXPECT_THAT(codes_of(refused), ElementsAre(Code::ok, Code::ok, Code::over_limit));
         if (as_envoyproxy()) {
           EXPECT_THAT(remaining_of(refused), ElementsAre(1U, 0U, 0U));
           return;
         }
         EXPECT_THAT(remaining_of(refused), ElementsAre(2U, 2U, 0U));
         // Also a descriptor after the refusal, which was only peeked.
         const RateLimitResponse behind = world.call("d", {k, with_hits(k, 2), with_hits(k, 0)});
         EXPECT_THAT(codes_of(behind), ElementsAre(Code::ok, Code::over_limit, Code::ok));
         EXPECT_THAT(remaining_of(behind), ElementsAre(2U, 1U, 2U));
         EXPECT_THAT(remaining_of(world.call("d", {with_hits(k, 0)})), ElementsAre(2U));
       });
}

// More limits than one decision can have.
TEST_P(EnvoyVectors, ManyDescriptorsAreChargedAllOrNothing) {
  play(kAnother, [this](World& world) {
    std::vector<std::string> values;
    for (int i = 0; i < 40; ++i) values.push_back(std::to_string(i));
    std::vector<RateLimitDescriptor> all;
    for (const std::string& value : values) all.push_back(of({{"key3", value}}));
    for (std::uint32_t i = 1; i <= 10; ++i) {
      const RateLimitResponse answer = world.call("another", all);
      EXPECT_EQ(answer.overall, Code::ok);
      EXPECT_THAT(remaining_of(answer), ::testing::Each(10 - i));
    }
    all.push_back(of({{"key2", "R"}}));
    const RateLimitResponse refused = world.call("another", all);
    EXPECT_EQ(refused.overall, Code::over_limit);
    EXPECT_EQ(refused.statuses.back().code, Code::ok);
    EXPECT_EQ(refused.statuses.back().remaining, as_envoyproxy() ? 19U : 20U);
    // The last limit refuses, and all before it are unchanged.
    std::vector<RateLimitDescriptor> fresh;
    for (const std::string& value : values) fresh.push_back(of({{"key2", value}}));
    fresh.push_back(of({{"key3", "0"}}));
    const RateLimitResponse last = world.call("another", fresh);
    EXPECT_EQ(last.overall, Code::over_limit);
    EXPECT_EQ(last.statuses[0].remaining, as_envoyproxy() ? 19U : 20U);
    const RateLimitResponse look = world.call("another", {with_hits(of({{"key2", "0"}}), 0)});
    EXPECT_THAT(remaining_of(look), ElementsAre(as_envoyproxy() ? 19U : 20U));
  });
}

// (a_b, c) and (a, b_c) are two rules with two counters.
TEST_P(EnvoyVectors, SimilarPairsHaveDifferentCounters) {
  play(R"(
domain: d
descriptors:
  - { key: a_b, value: c, rate_limit: { unit: hour, requests_per_unit: 3 } }
  - { key: a, value: b_c, rate_limit: { unit: hour, requests_per_unit: 5 } }
)",
       [](World& world) {
         EXPECT_THAT(remaining_of(world.call("d", {of({{"a_b", "c"}}), of({{"a", "b_c"}})})),
                     ElementsAre(2U, 4U));
         EXPECT_THAT(remaining_of(world.call("d", {of({{"a_b", "c"}})})), ElementsAre(1U));
         EXPECT_THAT(remaining_of(world.call("d", {of({{"a", "b_c"}})})), ElementsAre(3U));
       });
}

TEST_P(EnvoyVectors, KeysMayHaveAnyLength) {
  play(kAnother, [](World& world) {
    const std::string one(100'000, 'x');
    const std::string other = one + "y";
    EXPECT_THAT(remaining_of(world.call("another", {of({{"key2", one}})})), ElementsAre(19U));
    EXPECT_THAT(remaining_of(world.call("another", {of({{"key2", one}})})), ElementsAre(18U));
    EXPECT_THAT(remaining_of(world.call("another", {of({{"key2", other}})})), ElementsAre(19U));
    RateLimitDescriptor many;
    for (int i = 0; i < 10'000; ++i) many.entries.push_back({"key2", "R"});
    EXPECT_FALSE(world.call("another", {many}).statuses[0].limit);
    many.limit = LimitOverride{.requests_per_unit = 2, .unit = Unit::hour};
    EXPECT_THAT(remaining_of(world.call("another", {many})), ElementsAre(1U));
  });
}

TEST_P(EnvoyVectors, TokenBucketsAndSlidingWindowsAreSupported) {
  play(R"(
domain: d
descriptors:
  - { key: bucket, rate_limit: { unit: hour, requests_per_unit: 10, burst: 4 } }
  - { key: sliding, rate_limit: { unit: hour, requests_per_unit: 3, algorithm: sliding_window } }
  - { key: date, rate_limit: { unit: year, requests_per_unit: 3, calendar: Europe/Berlin } }
)",
       [](World& world) {
         for (std::uint32_t i = 1; i <= 4; ++i) {
           EXPECT_THAT(remaining_of(world.call("d", {of({{"bucket", "x"}})})), ElementsAre(4 - i));
         }
         const RateLimitResponse refused = world.call("d", {of({{"bucket", "x"}})});
         EXPECT_EQ(refused.overall, Code::over_limit);
         EXPECT_EQ(refused.statuses[0].limit->requests_per_unit, 10U);
         EXPECT_GE(*refused.statuses[0].until_reset, seconds{350});
         EXPECT_LE(*refused.statuses[0].until_reset, seconds{360});
         for (const char* key : {"sliding", "date"}) {
           for (std::uint32_t i = 1; i <= 3; ++i) {
             EXPECT_THAT(remaining_of(world.call("d", {of({{key, "x"}})})), ElementsAre(3 - i));
           }
           EXPECT_EQ(world.call("d", {of({{key, "x"}})}).overall, Code::over_limit);
         }
       });
}

// ---- Refunds

// A rule under each algorithm.
std::vector<std::string> rules_of_each(int requests) {
  std::vector<std::string> all;
  for (const std::string_view more :
       {"", ", algorithm: sliding_window", ", algorithm: token_bucket", ", calendar: UTC"}) {
    all.push_back(
        "domain: d\ndescriptors: [ { key: k, rate_limit: { unit: day, requests_per_unit: " +
        std::to_string(requests) + std::string{more} + " } } ]");
  }
  return all;
}

// A count may exceed its limit: refused hits are counted in compat mode, and limits can be lowered.
TEST_P(EnvoyVectors, NegativeHitsRefundHitsBeyondTheLimit) {
  const RateLimitDescriptor k = of({{"k", "x"}});
  for (std::size_t i = 0; i < rules_of_each(10).size(); ++i) {
    SCOPED_TRACE(rules_of_each(10)[i]);
    play(rules_of_each(10)[i], [&](World& world) {
      EXPECT_EQ(world.call("d", {with_hits(k, 7)}).overall, Code::ok);
      if (as_envoyproxy()) {
        EXPECT_EQ(world.call("d", {with_hits(k, 4)}).overall, Code::over_limit);
      } else {
        world.service.use(rules(rules_of_each(6)[i]));
      }
      EXPECT_EQ(world.call("d", {with_hits(k, 0)}).overall, Code::over_limit);
      const std::uint64_t over = 1;
      EXPECT_THAT(remaining_of(world.call("d", {returning(k, over)})), ElementsAre(0));
      EXPECT_EQ(world.call("d", {with_hits(k, 0)}).overall, Code::ok);
      EXPECT_THAT(remaining_of(world.call("d", {returning(k, 2)})), ElementsAre(2));
      EXPECT_EQ(world.call("d", {with_hits(k, 2)}).overall, Code::ok);
      EXPECT_EQ(world.call("d", {with_hits(k, 1)}).overall, Code::over_limit);
    });
  }
}

// Any number can be refunded, in every store.
TEST_P(EnvoyVectors, NegativeHitsCanRefundEverything) {
  constexpr std::uint64_t all = std::numeric_limits<std::uint64_t>::max();
  const RateLimitDescriptor k = of({{"k", "x"}});
  for (const std::string& yaml : rules_of_each(10)) {
    SCOPED_TRACE(yaml);
    play(yaml, [&](World& world) {
      for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(world.call("d", {with_hits(k, all)}).overall, Code::over_limit);
      }
      world.call("d", {returning(k, 5)});
      EXPECT_THAT(remaining_of(world.call("d", {returning(k, all)})), ElementsAre(10));
      EXPECT_THAT(remaining_of(world.call("d", {with_hits(k, 1)})), ElementsAre(9));
    });
  }
}

}  // namespace
}  // namespace weir::envoy
