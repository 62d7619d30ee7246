// The busiest keys: how they are counted, and GET /v1/top.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "../allocations.h"
#include "server/http_session.h"
#include "test_server.h"
#include "weir/parse_limit.h"
#include "weir/quota.h"

namespace weir::server {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using std::chrono::seconds;

PolicySet some_policies() {
  PolicySet set;
  set.add("p", Limit::window(3, std::chrono::hours{10}));
  set.add("roomy", per_second(1000).burst(100'000'000));
  return set;
}

class TopTest : public testing::Test, public TestServer {
 protected:
  TopTest() : TestServer(some_policies()) {}

  void take(std::string_view policy, std::string_view key, int times = 1) {
    for (int i = 0; i < times; ++i) (void)engine.take({.policy = policy, .key = key});
  }

  std::string ask(std::string_view target, bool loopback = true) {
    HttpSession session(context, {.address = "::1", .loopback = loopback});
    std::string out;
    session.on_input("GET " + std::string(target) + " HTTP/1.1\r\nHost: [::1]\r\n\r\n", out);
    return out;
  }
  json report(std::string_view target = "/v1/top") {
    const std::string answer = ask(target);
    return json::parse(answer.substr(answer.find("\r\n\r\n")), nullptr, false);
  }
  // "key count±error" of each.
  static std::vector<std::string> keys(const json& list) {
    std::vector<std::string> texts;
    for (const json& each : list) {
      texts.push_back(each["key"].get<std::string>() + " " + each["count"].dump() + "±" +
                      each["error"].dump());
    }
    return texts;
  }
  std::vector<std::string> allowed(std::string_view policy) {
    return keys(report("/v1/top?policy=" + std::string(policy))["policies"][0]["top_allowed"]);
  }
};

TEST_F(TopTest, ListsTheKeysAllowedAndRefusedMost) {
  take("p", "ann", 5);
  take("p", "bob", 4);
  take("p", "eve", 1);
  const json answer = report("/v1/top?policy=p");
  EXPECT_EQ(answer["seconds"], 1);
  const json& policy = answer["policies"][0];
  EXPECT_EQ(policy["policy"], "p");
  EXPECT_EQ(policy["allowed"], 7);
  EXPECT_EQ(policy["refused"], 3);
  EXPECT_EQ(keys(policy["top_allowed"])[2], "eve 1±0");
  EXPECT_THAT(keys(policy["top_refused"]), ElementsAre("ann 2±0", "bob 1±0"));
}

TEST_F(TopTest, CountsPartsInAnyOrderAsOneKey) {
  (void)engine.take({.policy = "roomy", .parts = {{"user", "42"}, {"sku", "7"}}});
  (void)engine.take({.policy = "roomy", .parts = {{"sku", "7"}, {"user", "42"}}});
  (void)engine.take({.policy = "roomy", .parts = {{"sku", "42"}, {"user", "7"}}});
  take("roomy", "user=42 sku=7");
  const auto found = allowed("roomy");
  ASSERT_THAT(found, SizeIs(3));
  EXPECT_EQ(found[0], "user=42 sku=7 2±0");
}

TEST_F(TopTest, CountsLimitsOfCallsUnderAnEmptyName) {
  (void)engine.throttle(*parse_limit("1/h"), "ann");
  (void)engine.throttle(*parse_limit("1/h"), "ann");
  const json policy = report("/v1/top?policy=")["policies"][0];
  EXPECT_EQ(policy["policy"], "");
  EXPECT_THAT(keys(policy["top_allowed"]), ElementsAre("ann 1±0"));
  EXPECT_THAT(keys(policy["top_refused"]), ElementsAre("ann 1±0"));
}

TEST_F(TopTest, TruncatesLongKeysAndMarksThem) {
  take("roomy", std::string(128, 'x'), 2);
  take("roomy", std::string(4000, 'y'));
  const json list = report()["policies"][0]["top_allowed"];
  EXPECT_FALSE(list[0].contains("cut"));
  EXPECT_EQ(list[1]["key"], std::string(125, 'y') + "…");
  EXPECT_EQ(list[1]["cut"], true);
}

TEST_F(TopTest, ReplacesBytesThatAreNotUtf8) {
  take("roomy", "a\xff\x1b");
  EXPECT_THAT(ask("/v1/top"), HasSubstr("{\"key\":\"a\xef\xbf\xbd\\u001b\",\"count\":1"));
}

// ---- Minutes

TEST_F(TopTest, CoversThisMinuteAndTheLast) {
  clock.advance(seconds{50});
  take("roomy", "early", 3);
  clock.advance(seconds{43});
  take("roomy", "late", 2);
  EXPECT_EQ(report()["seconds"], 93);
  EXPECT_THAT(allowed("roomy"), ElementsAre("early 3±0", "late 2±0"));
  clock.advance(seconds{30});
  EXPECT_EQ(report()["seconds"], 63);
  EXPECT_THAT(allowed("roomy"), ElementsAre("late 2±0"));
  take("roomy", "late");
  EXPECT_THAT(allowed("roomy"), ElementsAre("late 3±0"));
}

// Also if no call came in between.
TEST_F(TopTest, DropsKeysAfterTwoMinutes) {
  take("roomy", "early", 3);
  clock.advance(seconds{120});
  EXPECT_THAT(report()["policies"], IsEmpty());  // no policy in force has keys
  take("roomy", "late");
  EXPECT_THAT(allowed("roomy"), ElementsAre("late 1±0"));
  EXPECT_EQ(report()["policies"][0]["allowed"], 4);
}

// ---- Sampling

TEST_F(TopTest, CountsEveryDecisionAtALowRate) {
  for (int second = 0; second < 3; ++second) {
    take("roomy", "ann", Sampler::kUnsampledPerSecond - 1);
    clock.advance(seconds{1});
  }
  EXPECT_THAT(allowed("roomy"), ElementsAre("ann 29997±0"));
}

// Two keys that alternate, as in the pipeline of a client that repeats its commands.
TEST_F(TopTest, SamplesAtAHighRateAndReportsTheError) {
  constexpr int kTimes = 200'000;
  for (int i = 0; i < kTimes; ++i) {
    take("roomy", "even");
    take("roomy", "odd");
  }
  const json list = report()["policies"][0]["top_allowed"];
  ASSERT_EQ(list.size(), 2u);
  for (const json& each : list) {
    const double off = each["count"].get<double>() - kTimes;
    const double error = each["error"];
    EXPECT_LE(std::abs(off), 2 * error);  // six deviations: no test should fail by chance
    EXPECT_LT(error, 0.03 * kTimes);
    EXPECT_GT(error, 0);
  }
}

TEST_F(TopTest, CountsEveryDecisionAgainAfterABusySecond) {
  take("roomy", "busy", 20'000);
  clock.advance(seconds{1});
  take("roomy", "busy", 500);  // the first of these is still sampled
  take("roomy", "calm", 7);
  EXPECT_THAT(allowed("roomy")[1], "calm 7±0");
}

TEST_F(TopTest, FindsABusyKeyAmongManyOthers) {
  for (int i = 0; i < 6000; ++i) {
    take("roomy", "key " + std::to_string(i));
    if (i % 10 == 0) take("roomy", "busy");
  }
  const json first = report()["policies"][0]["top_allowed"][0];
  EXPECT_EQ(first["key"], "busy");
  const int count = first["count"];
  const int error = first["error"];
  EXPECT_LE(count - error, 600);
  EXPECT_GE(count, 600);
  EXPECT_LE(error, 6600 / static_cast<int>(TopKeys::kCounters));
}

TEST_F(TopTest, AddsUpTheCountsOfThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] { take("roomy", "ann", 1000); });
  }
  for (int i = 0; i < 100; ++i) (void)report();  // while they count
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(allowed("roomy"), ElementsAre("ann 4000±0"));
}

// New keys, samples and new minutes need no memory once both minutes have a sketch.
TEST_F(TopTest, AllocatesNothingOnceItIsWarm) {
  const auto some = [&](int from) {
    for (int i = from; i < from + 20'000; ++i) {
      char key[20];
      std::snprintf(key, sizeof key, "key %d", i);
      take("roomy", key);
    }
  };
  for (int minute = 0; minute < 2; ++minute) {
    some(20'000 * minute);
    clock.advance(seconds{60});
  }
  const std::size_t before = allocations();
  some(60'000);
  EXPECT_EQ(allocations() - before, 0u);
}

// ---- Bounds

TEST(TopKeys, PoliciesAboveTheMaximumShareOneSketch) {
  PolicySet set;
  const auto name = [](std::size_t i) { return "policy " + std::to_string(1000 + i); };
  for (std::size_t i = 0; i < TopKeys::kPolicies + 2; ++i) set.add(name(i), per_hour(5));
  TestServer server(std::move(set));
  for (std::size_t i = 0; i < TopKeys::kPolicies + 2; ++i) {
    (void)server.engine.take({.policy = name(i), .key = "k"});
    (void)server.engine.take({.policy = name(i), .key = "k"});
  }
  const TopReport top = server.metrics.top(10);
  const auto& others = top.policies.at(TopKeys::kOthers).top_allowed;
  ASSERT_THAT(others, SizeIs(2));
  EXPECT_THAT(others[0].text.view(), HasSubstr("policy 125"));
  EXPECT_THAT(others[0].text.view(), testing::EndsWith(" k"));
  EXPECT_EQ(others[0].count, 2u);
  EXPECT_THAT(top.policies.at(name(0)).top_allowed, SizeIs(1));
  EXPECT_THAT(top.policies.at(name(TopKeys::kPolicies)).top_allowed, IsEmpty());
  EXPECT_EQ(top.policies.at(name(TopKeys::kPolicies)).allowed, 2u);

  // Once the first policies are quiet, the last one gets a sketch of its own.
  server.clock.advance(std::chrono::minutes{3});
  const std::string last = name(TopKeys::kPolicies + 1);
  (void)server.engine.take({.policy = last, .key = "k"});
  EXPECT_THAT(server.metrics.top(10).policies.at(last).top_allowed, SizeIs(1));
}

// ---- Rights and errors

TEST_F(TopTest, RequiresThisMachineOrTheAdminToken) {
  EXPECT_THAT(ask("/v1/top", false), HasSubstr("HTTP/1.1 403 "));
  context.access.admin_token = "secret";
  EXPECT_THAT(ask("/v1/top"), HasSubstr("HTTP/1.1 401 "));
}

TEST_F(TopTest, NamesTheInvalidParameter) {
  EXPECT_THAT(ask("/v1/top?policy=nobody"), HasSubstr("there is no policy \\\"nobody\\\""));
  EXPECT_THAT(ask("/v1/top?policy=nobody"), HasSubstr("HTTP/1.1 404 "));
  for (const char* query : {"limit=0", "limit=65", "limit=x", "limit=", "limit=1&limit=2",
                            "policy=%zz", "policy=a&policy=b"}) {
    EXPECT_THAT(ask("/v1/top?" + std::string(query)), HasSubstr("HTTP/1.1 400 ")) << query;
  }
}

TEST_F(TopTest, ListsAsManyKeysAsRequested) {
  for (int i = 0; i < 100; ++i) take("roomy", "key " + std::to_string(i));
  const auto count = [&](const char* target) {
    return report(target)["policies"][0]["top_allowed"].size();
  };
  EXPECT_EQ(count("/v1/top"), 10u);
  EXPECT_EQ(count("/v1/top?limit=1"), 1u);
  EXPECT_EQ(count("/v1/top?limit=64"), 64u);
}

TEST(TopKeysSwitchedOff, CountsNoKeys) {
  ManualClock clock;
  Metrics metrics{{.top = false, .clock = &clock}};
  Engine engine{some_policies(), {.clock = &clock, .sink = &metrics}};
  (void)engine.take({.policy = "p", .key = "k"});
  EXPECT_FALSE(metrics.counts_keys());
  EXPECT_EQ(metrics.top(10).policies.at("p").allowed, 1u);
  EXPECT_THAT(metrics.top(10).policies.at("p").top_allowed, IsEmpty());
}

}  // namespace
}  // namespace weir::server
