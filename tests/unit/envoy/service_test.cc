#include "envoy/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "../allocations.h"
#include "world.h"

namespace weir::envoy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::string_view kRules = R"(
domain: d
descriptors:
  - { key: k, rate_limit: { unit: minute, requests_per_unit: 10 } }
  - { key: second, rate_limit: { unit: second, requests_per_unit: 10 } }
  - { key: named, value_to_metric: true, rate_limit: { unit: minute, requests_per_unit: 10 } }
  - { key: quota, quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - key: meta
    metadata: { team: a, plan: free }
    rate_limit: { unit: hour, requests_per_unit: 1 }
  - key: more
    metadata: { plan: paid, level: 2 }
    rate_limit: { unit: hour, requests_per_unit: 5 }
)";

std::string error_of(World& world, std::string_view domain,
                     std::vector<RateLimitDescriptor> descriptors) {
  const auto answer = world.ask(domain, std::move(descriptors));
  return answer ? "" : answer.error().text;
}

TEST(RateLimitService, ReportsWhyARequestIsInvalid) {
  World world(kRules);
  EXPECT_EQ(error_of(world, "", {of({{"k", "v"}})}), "rate limit domain must not be empty");
  EXPECT_EQ(error_of(world, "d", {}), "rate limit descriptor list must not be empty");
  EXPECT_EQ(world.service.counts().service_errors, 2U);
  std::vector<RateLimitDescriptor> many(1025, of({{"k", "v"}}));
  EXPECT_EQ(error_of(world, "d", many),
            "1025 descriptors of the call have limits: at most 1024 are allowed");
  many.assign(10'000, of({{"nobody", "v"}}));
  EXPECT_EQ(error_of(world, "d", many), "");
  many.push_back({});
  EXPECT_EQ(error_of(world, "d", many), "the call has more than 10000 descriptors");
  world.service.use(nullptr);
  EXPECT_EQ(error_of(world, "d", {of({{"k", "v"}})}), "no rate limit configuration loaded");
  EXPECT_FALSE(world.service.is_configured());
}

// An entry without a key or a descriptor without entries matches no rule.
TEST(RateLimitService, AllowsDescriptorsWithoutARule) {
  World world(kRules);
  const RateLimitResponse answer =
      world.call("d", {of({}), of({{"", ""}}), of({{"\xff\xfe", "\0"}})});
  EXPECT_EQ(answer.overall, Code::ok);
  EXPECT_EQ(answer.statuses.size(), 3U);
}

// Windows are aligned to 1970. Seconds are rounded up, since proxies drop the fraction.
TEST(RateLimitService, ReportsTheEndOfTheWindow) {
  World world(kRules);
  const auto until_reset = [&](const char* key) {
    return *world.call("d", {of({{key, "v"}})}).statuses[0].until_reset;
  };
  world.clock.set(Instant{seconds{2222}});
  EXPECT_EQ(until_reset("k"), seconds{58});
  EXPECT_EQ(until_reset("second"), seconds{1});
  world.clock.set(Instant{seconds{2222} + milliseconds{400}});
  EXPECT_EQ(until_reset("k"), seconds{58});
  world.clock.set(Instant{seconds{2280}});
  EXPECT_EQ(until_reset("k"), seconds{60});
}

// An impossible request must not tell the client to retry at once.
TEST(RateLimitService, ReportsThePeriodForImpossibleRequests) {
  constexpr std::string_view yaml = R"(
domain: d
descriptors:
  - { key: bucket, rate_limit: { unit: day, requests_per_unit: 10, burst: 3 } }
  - { key: sliding, rate_limit: { unit: hour, requests_per_unit: 3, algorithm: sliding_window } }
  - { key: short, rate_limit: { per: 100ms, requests_per_unit: 3, algorithm: token_bucket } }
)";
  for (const bool as_envoyproxy : {false, true}) {
    World world(yaml, {.as_envoyproxy = as_envoyproxy});
    const auto until_reset = [&](const char* key) {
      const RateLimitResponse answer = world.call("d", {of({{key, "v"}})}, 7);
      EXPECT_EQ(answer.overall, Code::over_limit);
      return *answer.statuses[0].until_reset;
    };
    EXPECT_EQ(until_reset("bucket"), std::chrono::hours{24});
    EXPECT_EQ(until_reset("sliding"), std::chrono::hours{1});
    EXPECT_EQ(until_reset("short"), seconds{1});
  }
}

TEST(RateLimitService, AllowsAgainInTheNextWindow) {
  for (const bool as_envoyproxy : {false, true}) {
    World world(kRules, {.as_envoyproxy = as_envoyproxy});
    EXPECT_EQ(world.call("d", {of({{"k", "v"}})}, 10).statuses[0].remaining, 0U);
    world.clock.advance(seconds{59});
    EXPECT_EQ(world.call("d", {of({{"k", "v"}})}).overall, Code::over_limit);
    world.clock.advance(seconds{1});
    EXPECT_EQ(world.call("d", {of({{"k", "v"}})}).statuses[0].remaining, 9U);
  }
}

TEST(RateLimitService, SendsHeadersOfTheRefusingQuota) {
  constexpr std::string_view yaml = R"(
domain: d
descriptors:
  - { key: q, quota_mode: true, rate_limit: { unit: day, requests_per_unit: 9 } }
  - { key: r, quota_mode: true, rate_limit: { unit: day, requests_per_unit: 8 } }
  - { key: b, rate_limit: { unit: day, requests_per_unit: 3 } }
)";
  World world(yaml, {.response_headers = true});
  const auto limit = [&](std::vector<RateLimitDescriptor> descriptors) {
    return world.call("d", std::move(descriptors)).response_headers.at(0).value;
  };
  const RateLimitDescriptor q = of({{"q", "v"}});
  const RateLimitDescriptor b = of({{"b", "v"}});
  EXPECT_EQ(limit({with_hits(q, 10), b}), "9");
  EXPECT_EQ(limit({b, with_hits(q, 10)}), "9");
  // Another quota has room: the request is allowed.
  EXPECT_EQ(limit({with_hits(q, 10), of({{"r", "v"}}), b}), "3");
  // A refusing limit comes before a refusing quota.
  EXPECT_EQ(limit({with_hits(b, 4), with_hits(q, 10)}), "3");
}

TEST(RateLimitService, SendsHeadersOfTheTightestLimit) {
  World world(kRules, {.response_headers = true});
  world.clock.set(Instant{seconds{2222}});
  const auto headers = [](const RateLimitResponse& answer) {
    std::string all;
    for (const ResponseHeader& header : answer.response_headers) {
      all += header.key + ": " + header.value + "; ";
    }
    return all;
  };
  EXPECT_EQ(headers(world.call("d", {of({{"k", "v"}}), of({{"second", "v"}})}, 2)),
            "RateLimit-Limit: 10; RateLimit-Remaining: 8; RateLimit-Reset: 58; ");
  world.call("d", {of({{"k", "v"}})}, 8);
  EXPECT_EQ(headers(world.call("d", {of({{"second", "v"}}), of({{"k", "v"}})})),
            "RateLimit-Limit: 10; RateLimit-Remaining: 0; RateLimit-Reset: 58; ");
  // A quota that is over does not come before a limit that refuses.
  world.call("d", {of({{"quota", "v"}})}, 2);
  EXPECT_EQ(headers(world.call("d", {of({{"k", "v"}}), of({{"quota", "v"}})})),
            "RateLimit-Limit: 10; RateLimit-Remaining: 0; RateLimit-Reset: 58; ");
  EXPECT_EQ(headers(world.call("d", {of({{"unknown", "v"}})})), "");
  World renamed(kRules,
                {.response_headers = true, .header_names = {.limit = "X-Most", .reset = "X-When"}});
  renamed.clock.set(Instant{seconds{2222}});
  EXPECT_EQ(headers(renamed.call("d", {of({{"k", "v"}})})),
            "X-Most: 10; RateLimit-Remaining: 9; X-When: 58; ");
  World without(kRules);
  EXPECT_EQ(headers(without.call("d", {of({{"k", "v"}})})), "");
}

TEST(RateLimitService, SendsMetadataOfAdmittingRules) {
  World world(kRules, {.dynamic_metadata = true});
  EXPECT_EQ(world.call("d", {of({{"meta", "x"}}), of({{"more", "x"}})}, 1).metadata,
            R"({"descriptors":[{"entries":["meta=x"]},{"entries":["more=x"]}],"domain":"d",)"
            R"("hitsAddend":1,"metadata":{"level":2,"plan":"free","team":"a"}})");
  // The first rule refuses now.
  EXPECT_EQ(world.call("d", {of({{"meta", "x"}}), with_hits(of({{"more", "x"}}), 2)}).metadata,
            R"({"descriptors":[{"entries":["meta=x"]},{"entries":["more=x"],"hitsAddend":2}],)"
            R"("domain":"d","metadata":{"level":2,"plan":"paid"}})");
  const RateLimitResponse limited_by_call =
      world.call("d", {limited(of({{"a", "b"}}), 3, Unit::hour)});
  EXPECT_THAT(limited_by_call.metadata,
              ::testing::HasSubstr(R"("limit":"requests_per_unit:3 unit:HOUR")"));
  EXPECT_THAT(world.call("d", {limited(of({{"a", "b"}}), 0, Unit::day)}).metadata,
              ::testing::HasSubstr(R"("limit":"unit:DAY")"));
}

// Objects of one name are merged; of other values the first wins. Unlimited rules add nothing.
TEST(RateLimitService, MergesMetadataObjects) {
  World world(R"(
domain: d
descriptors:
  - key: a
    metadata: { route: { to: one, more: { x: 1 } }, list: [ 1 ], mixed: { y: 1 } }
    rate_limit: { unit: hour, requests_per_unit: 5 }
  - key: b
    metadata: { route: { to: two, also: 3, more: { x: 2, z: 4 } }, list: [ 2 ], mixed: 7, new: {} }
    rate_limit: { unit: hour, requests_per_unit: 5 }
  - { key: free, metadata: { team: nobody }, rate_limit: { unlimited: true } }
)",
              {.dynamic_metadata = true});
  EXPECT_THAT(world.call("d", {of({{"free", "x"}}), of({{"a", "x"}}), of({{"b", "x"}})}).metadata,
              ::testing::HasSubstr(R"("metadata":{"list":[1],"mixed":{"y":1},"new":{},)"
                                   R"("route":{"also":3,"more":{"x":1,"z":4},"to":"one"}}})"));
  EXPECT_THAT(world.call("d", {of({{"free", "x"}})}).metadata,
              ::testing::Not(::testing::HasSubstr("team")));
}

TEST(RateLimitService, AppliesNewOptionsAndKeepsUsage) {
  World world(kRules, {.shadow_mode = true});
  const auto call = [&] { return world.call("d", {of({{"k", "v"}})}, 6); };
  EXPECT_EQ(call().overall, Code::ok);
  EXPECT_EQ(call().overall, Code::ok);
  world.service.use(rules(kRules));
  EXPECT_EQ(call().overall, Code::over_limit);
  EXPECT_EQ(world.call("d", {of({{"k", "v"}})}, 4).overall,
            Code::ok);  // the refused request took nothing
  world.service.use(rules(kRules), {.as_envoyproxy = true, .response_headers = true});
  EXPECT_EQ(call().response_headers.size(), 3U);
  EXPECT_EQ(world.call("d", {with_hits(of({{"k", "v"}}), 0)}).overall, Code::over_limit);
}

TEST(RateLimitService, KeepsUsageAndCountersAfterAReload) {
  World world(kRules);
  world.call("d", {of({{"k", "v"}})}, 10);
  EXPECT_EQ(world.call("d", {of({{"k", "v"}})}).overall, Code::over_limit);
  world.service.use(
      rules("domain: d\ndescriptors:\n"
            "  - { key: k, rate_limit: { unit: minute, requests_per_unit: 15 } }\n"));
  EXPECT_EQ(world.call("d", {of({{"k", "v"}})}).statuses[0].remaining, 4U);
  EXPECT_EQ(world.counts_of("d.k").total, 12U);
  EXPECT_EQ(world.counts_of("d.second").total, 0U);
  EXPECT_EQ(world.service.counts().loads, 2U);
  world.service.note_failed_reload();
  EXPECT_EQ(world.service.counts().failed_loads, 1U);
}

// The number of names that clients can create is bounded.
TEST(RateLimitService, BoundsTheMetricsThatClientsName) {
  World world(kRules);
  for (int i = 0; i < 1'500; ++i) {
    world.call("d", {of({{"named", std::to_string(i)}})});
  }
  world.call("d", {of({{"named", std::string(300, 'x')}})});
  world.call("d", {of({{"named", "\xff"}})});
  EXPECT_LE(world.service.counts().rules.size(), Statistics::kMaxNames + 10);
  EXPECT_EQ(world.counts_of("d.named_7").total, 1U);
  EXPECT_EQ(world.counts_of("(others)").total, 502U);
}

// The hot path allocates only the response.
TEST(RateLimitService, AllocatesOnlyTheResponse) {
  World world(kRules);
  NoLink link;
  const RateLimitRequest call{.domain = "d",
                              .descriptors = {of({{"k", "v"}}), of({{"second", "v"}})}};
  std::uint64_t passed = 0;
  const auto ask = [&] {
    world.service.should_rate_limit(call, link,
                                    [&passed](Result<RateLimitResponse, ServiceError> answer) {
                                      passed += answer && answer->overall == Code::ok ? 1 : 0;
                                    });
  };
  for (int i = 0; i < 3; ++i) ask();
  const auto before = allocations();
  ask();
  EXPECT_LE(allocations() - before, 2U);
  EXPECT_EQ(passed, 4U);
}

TEST(RateLimitService, NeverExceedsALimitOnManyThreads) {
  World world(
      "domain: d\ndescriptors:\n"
      "  - { key: a, rate_limit: { unit: hour, requests_per_unit: 1000 } }\n"
      "  - { key: b, rate_limit: { unit: hour, requests_per_unit: 700 } }\n");
  std::atomic<int> passed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      NoLink link;
      for (int i = 0; i < 500; ++i) {
        const RateLimitRequest call{.domain = "d",
                                    .descriptors = {of({{"a", "x"}}), of({{"b", "x"}})}};
        world.service.should_rate_limit(call, link,
                                        [&](Result<RateLimitResponse, ServiceError> answer) {
                                          if (answer && answer->overall == Code::ok) ++passed;
                                        });
        if (t == 0 && i % 100 == 0) {
          world.service.use(
              rules("domain: d\ndescriptors:\n"
                    "  - { key: a, rate_limit: { unit: hour, requests_per_unit: 1000 } }\n"
                    "  - { key: b, rate_limit: { unit: hour, requests_per_unit: 700 } }\n"));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(passed, 700);
  // The other limit was not charged more often.
  EXPECT_EQ(world.call("d", {with_hits(of({{"a", "x"}}), 0)}).statuses[0].remaining, 300U);
}

}  // namespace
}  // namespace weir::envoy
