#include "cli/bench/bench_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace weir::cli::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(BenchPlan, DerivesTheProtocolFromTheAddress) {
  const auto resp = parse_target("10.0.0.1:99");
  ASSERT_TRUE(resp);
  EXPECT_EQ(resp->protocol, WireProtocol::resp);
  EXPECT_EQ(resp->text(), "10.0.0.1:99");
  const auto http = parse_target("http://[::1]:7380/");
  ASSERT_TRUE(http);
  EXPECT_EQ(http->protocol, WireProtocol::http);
  EXPECT_EQ(http->host, "::1");
  EXPECT_EQ(http->text(), "http://[::1]:7380");
}

TEST(BenchPlan, RefusesInvalidAddresses) {
  for (const char* text : {"", "localhost", "7379", "https://a:1", "a:b", "http://a:1/v1"}) {
    const auto target = parse_target(text);
    ASSERT_FALSE(target) << text;
    EXPECT_THAT(target.error().message, HasSubstr("http://127.0.0.1:7380")) << text;
  }
}

TEST(BenchPlan, ParsesTheWeightsOfAMix) {
  EXPECT_THAT(parse_mix("take")->parts, ElementsAre(1, 0, 0));
  EXPECT_THAT(parse_mix("take=90,peek=10")->parts, ElementsAre(90, 10, 0));
  EXPECT_THAT(parse_mix("settle,peek=0")->parts, ElementsAre(0, 0, 1));
  for (const char* text : {"", "take=", "take=x", "take=-1", "take=0", "tak", "take,,peek"}) {
    EXPECT_FALSE(parse_mix(text)) << text;
  }
}

TEST(BenchPlan, ParsesTheExponentOfASpread) {
  EXPECT_EQ(*parse_spread("uniform"), std::nullopt);
  EXPECT_EQ(*parse_spread("zipf"), 1.0);
  EXPECT_EQ(*parse_spread("zipf:0.7"), 0.7);
  for (const char* text : {"", "zip", "zipf:", "zipf:0", "zipf:-1", "zipf:nan", "zipf:11"}) {
    EXPECT_FALSE(parse_spread(text)) << text;
  }
}

TEST(BenchPlan, NamesOfAllKeysHaveTheSameLength) {
  BenchPlan plan;
  plan.prefix = "k:";
  plan.keys = 1000;
  EXPECT_EQ(key_name(plan, 7), "k:007");
  EXPECT_EQ(key_name(plan, 999), "k:999");
  plan.keys = 1;
  EXPECT_EQ(key_name(plan, 0), "k:0");
}

TEST(BenchPlan, CheckReportsInvalidOptions) {
  const auto wrong = [](auto change) {
    BenchPlan plan;
    change(plan);
    const auto error = check(plan);
    return error ? error->message : "";
  };
  EXPECT_EQ(wrong([](BenchPlan&) {}), "");
  EXPECT_THAT(wrong([](BenchPlan& p) { p.mix.parts = {1, 1, 0}; }), HasSubstr("--policy"));
  EXPECT_THAT(wrong([](BenchPlan& p) { p.keys = 0; }), HasSubstr("--keys"));
  for (const double rate : {-1.0, 1e-300, 1e300, std::nan("")}) {
    EXPECT_THAT(wrong([=](BenchPlan& p) { p.rate = rate; }), HasSubstr("--rate"));
  }
  EXPECT_THAT(wrong([](BenchPlan& p) { p.threads = 17; }), HasSubstr("--connections is 16"));
  EXPECT_THAT(wrong([](BenchPlan& p) { p.prefix = std::string(5000, 'x'); }), HasSubstr("4096"));
  EXPECT_THAT(wrong([](BenchPlan& p) { p.limit = "5/min sliding"; }), HasSubstr("token bucket"));
  EXPECT_THAT(wrong([](BenchPlan& p) { p.limit = "5/sec"; }), HasSubstr("did you mean"));
  EXPECT_THAT(wrong([](BenchPlan& p) { p.password = "a\r\nb"; }), HasSubstr("--password"));
  EXPECT_EQ(wrong([](BenchPlan& p) {
              p.limit = "5/min sliding";
              p.target.protocol = WireProtocol::http;
            }),
            "");
}

}  // namespace
}  // namespace weir::cli::bench
