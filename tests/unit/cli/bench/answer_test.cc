#include "cli/bench/answer.h"

#include <gtest/gtest.h>

namespace weir::cli::bench {
namespace {

using Kind = Answer::Kind;
using Status = AnswerReader::Status;

Plan plan_for(Door door, std::string policy) {
  Plan plan;
  plan.target.door = door;
  plan.policy = std::move(policy);
  return plan;
}

Kind kind_of(const Plan& plan, std::string_view bytes, Verb verb = Verb::take) {
  AnswerReader reader(plan);
  EXPECT_EQ(reader.read(bytes, verb), Status::answer) << bytes;
  EXPECT_EQ(reader.consumed(), bytes.size());
  return reader.answer().kind;
}

TEST(Answer, OverRespTheFirstNumberSaysWhetherItPassed) {
  const Plan plan = plan_for(Door::resp, "p");
  EXPECT_EQ(kind_of(plan, "*2\r\n:1\r\n:5\r\n"), Kind::allowed);
  EXPECT_EQ(kind_of(plan, "*2\r\n:0\r\n:5\r\n"), Kind::refused);
  EXPECT_EQ(kind_of(plan, "+OK\r\n", Verb::login), Kind::allowed);
}

TEST(Answer, OfRedisCellSaysWhetherItIsLimited) {
  const Plan plan = plan_for(Door::resp, "");
  EXPECT_EQ(kind_of(plan, "*2\r\n:0\r\n:5\r\n"), Kind::allowed);
  EXPECT_EQ(kind_of(plan, "*2\r\n:1\r\n:5\r\n"), Kind::refused);
}

TEST(Answer, ErrorsOverRespAreCountedByTheirFirstWord) {
  AnswerReader reader(plan_for(Door::resp, "p"));
  ASSERT_EQ(reader.read("-NOAUTH who are you\r\n", Verb::take), Status::answer);
  EXPECT_EQ(reader.answer().kind, Kind::error);
  EXPECT_EQ(reader.answer().error_kind, "NOAUTH");
  EXPECT_EQ(reader.answer().text, "NOAUTH who are you");
}

TEST(Answer, WhatIsNoDecisionIsBroken) {
  AnswerReader reader(plan_for(Door::resp, "p"));
  for (const char* bytes : {"+OK\r\n", "*0\r\n", "*1\r\n+x\r\n", ":1\r\n", "HTTP/1.1 400 x\r\n"}) {
    EXPECT_EQ(reader.read(bytes, Verb::take), Status::broken) << bytes;
  }
  EXPECT_EQ(reader.read("*2\r\n:1\r\n", Verb::take), Status::need_more);
}

TEST(Answer, OverHttpTheStatusSaysWhetherItPassed) {
  const Plan plan = plan_for(Door::http, "p");
  const std::string refused = "{\"allowed\":false}";
  const std::string length = "Content-Length: 17\r\n\r\n" + refused;
  EXPECT_EQ(kind_of(plan, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"), Kind::allowed);
  EXPECT_EQ(kind_of(plan, "HTTP/1.1 429 No\r\n" + length), Kind::refused);
  // A peek is 200 even so.
  EXPECT_EQ(kind_of(plan, "HTTP/1.1 200 OK\r\n" + length, Verb::peek), Kind::refused);
}

TEST(Answer, OtherStatusesAreErrorsOfTheirKind) {
  AnswerReader reader(plan_for(Door::http, "p"));
  const char* bytes = "HTTP/1.1 503 No\r\nConnection: close\r\nContent-Length: 4\r\n\r\nwhy?";
  ASSERT_EQ(reader.read(bytes, Verb::take), Status::answer);
  EXPECT_EQ(reader.answer().error_kind, "status 503");
  EXPECT_EQ(reader.answer().text, "why?");
  EXPECT_TRUE(reader.closes());
}

}  // namespace
}  // namespace weir::cli::bench
