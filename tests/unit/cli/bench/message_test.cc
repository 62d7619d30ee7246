#include "cli/bench/message.h"

#include <gtest/gtest.h>

#include "wire/http1.h"
#include "wire/resp.h"

namespace weir::cli::bench {
namespace {

std::string message(const BenchPlan& plan, RequestVerb verb, std::uint64_t key) {
  std::string out = "before";
  Messages(plan).append(out, verb, key);
  return out.substr(6);
}

// The arguments of a RESP command as the daemon parses them, joined by blanks.
std::string words(const std::string& bytes) {
  wire::RespParser parser;
  EXPECT_EQ(parser.parse(bytes), wire::RespParser::Status::command);
  EXPECT_EQ(parser.consumed(), bytes.size());
  std::string line;
  for (const std::string_view word : parser.arguments()) line.append(word) += ' ';
  return line;
}

BenchPlan plan_for(std::string policy) {
  BenchPlan plan;
  plan.policy = std::move(policy);
  plan.keys = 1000;
  plan.prefix = "k0:";
  return plan;
}

TEST(Messages, BuildsRespCommands) {
  BenchPlan plan = plan_for("k0:000");
  EXPECT_EQ(words(message(plan, RequestVerb::take, 42)), "WEIR.TAKE k0:000 k0:042 ");
  EXPECT_EQ(words(message(plan, RequestVerb::take, 999)), "WEIR.TAKE k0:000 k0:999 ");
  EXPECT_EQ(words(message(plan, RequestVerb::take, 0)), "WEIR.TAKE k0:000 k0:000 ");
  plan.permits = 5;
  EXPECT_EQ(words(message(plan, RequestVerb::take, 42)), "WEIR.TAKE k0:000 k0:042 5 ");
  EXPECT_EQ(words(message(plan, RequestVerb::peek, 42)), "WEIR.PEEK k0:000 k0:042 5 ");
  EXPECT_EQ(words(message(plan, RequestVerb::settle, 42)), "WEIR.SETTLE k0:000 k0:042 5 ");
}

TEST(Messages, ConvertsALimitToArgumentsOfClThrottleOverResp) {
  const auto numbers = [](const char* limit) {
    BenchPlan plan = plan_for("");
    plan.limit = limit;
    return words(message(plan, RequestVerb::take, 1));
  };
  EXPECT_EQ(numbers("100/s burst 20"), "CL.THROTTLE k0:001 19 100 1 1 ");
  EXPECT_EQ(numbers("5/min"), "CL.THROTTLE k0:001 4 5 60 1 ");
  EXPECT_EQ(numbers("10 per 100ms"), "CL.THROTTLE k0:001 9 100 1 1 ");
  EXPECT_EQ(numbers("0.5/s burst 3"), "CL.THROTTLE k0:001 2 5 10 1 ");
}

TEST(Messages, BuildsHttpRequests) {
  BenchPlan plan = plan_for("p \"x\"");
  plan.target.protocol = WireProtocol::http;
  plan.password = "secret";
  const std::string bytes = message(plan, RequestVerb::peek, 7);
  wire::HttpParser parser;
  ASSERT_EQ(parser.parse(bytes).status, wire::HttpParser::Status::complete);
  EXPECT_EQ(parser.request().path, "/v1/peek");
  EXPECT_EQ(parser.request().body, R"({"policy":"p \"x\"","key":"k0:007"})");
  EXPECT_EQ(parser.request().field("authorization"), "Bearer secret");
}

TEST(Messages, SendsALimitAsTextOverHttp) {
  BenchPlan plan = plan_for("");
  plan.target.protocol = WireProtocol::http;
  plan.limit = "5/min sliding";
  plan.permits = 2;
  const std::string bytes = message(plan, RequestVerb::take, 7);
  EXPECT_TRUE(bytes.starts_with("POST /v1/throttle HTTP/1.1\r\n"));
  EXPECT_TRUE(bytes.ends_with(R"({"limit":"5/min sliding","permits":2,"key":"k0:007"})"));
}

TEST(Messages, LogsInFirstWithAPasswordOverResp) {
  BenchPlan plan = plan_for("p");
  EXPECT_EQ(Messages(plan).login(), "");
  plan.password = "secret";
  EXPECT_EQ(words(Messages(plan).login()), "AUTH secret ");
}

}  // namespace
}  // namespace weir::cli::bench
