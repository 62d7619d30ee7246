#include "cli/bench/bench_reply.h"

#include <gtest/gtest.h>

namespace weir::cli::bench {
namespace {

using ReadStatus = BenchReplyReader::ReadStatus;

BenchPlan plan_for(WireProtocol protocol, std::string policy) {
  BenchPlan plan;
  plan.target.protocol = protocol;
  plan.policy = std::move(policy);
  return plan;
}

ReplyKind kind_of(const BenchPlan& plan, std::string_view bytes,
                  RequestVerb verb = RequestVerb::take) {
  BenchReplyReader reader(plan);
  EXPECT_EQ(reader.read(bytes, verb), ReadStatus::reply) << bytes;
  EXPECT_EQ(reader.consumed(), bytes.size());
  return reader.answer().kind;
}

TEST(BenchReplyReader, TakesTheDecisionFromTheFirstIntegerOverResp) {
  const BenchPlan plan = plan_for(WireProtocol::resp, "p");
  EXPECT_EQ(kind_of(plan, "*2\r\n:1\r\n:5\r\n"), ReplyKind::allowed);
  EXPECT_EQ(kind_of(plan, "*2\r\n:0\r\n:5\r\n"), ReplyKind::refused);
  EXPECT_EQ(kind_of(plan, "+OK\r\n", RequestVerb::login), ReplyKind::allowed);
}

TEST(BenchReplyReader, InvertsTheFirstIntegerOfRedisCell) {
  const BenchPlan plan = plan_for(WireProtocol::resp, "");
  EXPECT_EQ(kind_of(plan, "*2\r\n:0\r\n:5\r\n"), ReplyKind::allowed);
  EXPECT_EQ(kind_of(plan, "*2\r\n:1\r\n:5\r\n"), ReplyKind::refused);
}

TEST(BenchReplyReader, UsesTheFirstWordOfARespErrorAsItsKind) {
  BenchReplyReader reader(plan_for(WireProtocol::resp, "p"));
  ASSERT_EQ(reader.read("-NOAUTH who are you\r\n", RequestVerb::take), ReadStatus::reply);
  EXPECT_EQ(reader.answer().kind, ReplyKind::error);
  EXPECT_EQ(reader.answer().error_kind, "NOAUTH");
  EXPECT_EQ(reader.answer().text, "NOAUTH who are you");
}

TEST(BenchReplyReader, RepliesWithoutADecisionAreBroken) {
  BenchReplyReader reader(plan_for(WireProtocol::resp, "p"));
  for (const char* bytes : {"+OK\r\n", "*0\r\n", "*1\r\n+x\r\n", ":1\r\n", "HTTP/1.1 400 x\r\n"}) {
    EXPECT_EQ(reader.read(bytes, RequestVerb::take), ReadStatus::broken) << bytes;
  }
  EXPECT_EQ(reader.read("*2\r\n:1\r\n", RequestVerb::take), ReadStatus::need_more);
}

TEST(BenchReplyReader, TakesTheDecisionFromTheStatusOverHttp) {
  const BenchPlan plan = plan_for(WireProtocol::http, "p");
  const std::string refused = "{\"allowed\":false}";
  const std::string length = "Content-Length: 17\r\n\r\n" + refused;
  EXPECT_EQ(kind_of(plan, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"), ReplyKind::allowed);
  EXPECT_EQ(kind_of(plan, "HTTP/1.1 429 No\r\n" + length), ReplyKind::refused);
  // The status of a peek is 200 also for a refusal.
  EXPECT_EQ(kind_of(plan, "HTTP/1.1 200 OK\r\n" + length, RequestVerb::peek), ReplyKind::refused);
}

TEST(BenchReplyReader, UsesAnyOtherHttpStatusAsTheKindOfAnError) {
  BenchReplyReader reader(plan_for(WireProtocol::http, "p"));
  const char* bytes = "HTTP/1.1 503 No\r\nConnection: close\r\nContent-Length: 4\r\n\r\nwhy?";
  ASSERT_EQ(reader.read(bytes, RequestVerb::take), ReadStatus::reply);
  EXPECT_EQ(reader.answer().error_kind, "status 503");
  EXPECT_EQ(reader.answer().text, "why?");
  EXPECT_TRUE(reader.closes());
}

}  // namespace
}  // namespace weir::cli::bench
