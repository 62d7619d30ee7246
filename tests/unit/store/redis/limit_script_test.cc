// Commands and replies of LimitScript, without a server.

#include "store/redis/limit_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../allocations.h"

namespace weir::store::redis {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using Kind = wire::RespValue::Kind;

class LimitScriptTest : public ::testing::Test {
 protected:
  LimitScriptTest() { script_.start(request(), {}); }

  StoreRequest request() const { return {.items = {&item_, 1}, .wants_receipts = true}; }

  LimitScript::ReplyResult reply(const std::string& resp) {
    EXPECT_EQ(parser_.parse(resp), wire::RespReplyParser::Status::reply) << resp;
    return script_.on_reply(parser_.values(), response_);
  }

  core::Limit limit_ = *core::Bucket::make({10, 1, seconds{1}}, 5);
  StoreItem item_{.limit = &limit_, .key = "weir1:{p:k}:=l"};
  LimitScript script_;
  wire::RespReplyParser parser_;
  StoreResponse response_;
};

TEST_F(LimitScriptTest, SendsEvalshaFirstAndEvalAfterNoscript) {
  std::string by_name;
  script_.append_command(by_name, false);
  EXPECT_THAT(by_name, HasSubstr("*5\r\n$7\r\nEVALSHA\r\n$40\r\n" + take_script("b").sha1 +
                                 "\r\n$1\r\n1\r\n$14\r\nweir1:{p:k}:=l\r\n"));
  std::string with_source;
  script_.append_command(with_source, true);
  EXPECT_THAT(with_source, HasSubstr("$4\r\nEVAL\r\n"));
  EXPECT_THAT(with_source, HasSubstr(take_script("b").source));
}

TEST_F(LimitScriptTest, DecidesFromTheFoundValuesAndTheServersTime) {
  ASSERT_EQ(reply("*4\r\n:1\r\n:1767225600\r\n:5\r\n$-1\r\n"), LimitScript::ReplyResult::answered);
  ASSERT_EQ(response_.kind, StoreResponse::Kind::decided) << response_.error;
  EXPECT_EQ(response_.now, instant(1'767'225'600'000'005'000));
  EXPECT_TRUE(response_.verdict.decision);
  EXPECT_EQ(response_.decisions.at(0).remaining, 4);
  EXPECT_EQ(response_.receipts.at(0).birth, 1'767'225'600'000'005u);
  EXPECT_EQ(response_.receipts.at(0).receipt.taken, 1);
}

TEST_F(LimitScriptTest, ParsesTheTextReplyOfTheTakeScriptLikeAnArray) {
  ASSERT_EQ(reply("$15\r\n1 1767225600 5\n\r\n"), LimitScript::ReplyResult::answered);
  ASSERT_EQ(response_.kind, StoreResponse::Kind::decided) << response_.error;
  EXPECT_EQ(response_.now, instant(1'767'225'600'000'005'000));
  EXPECT_EQ(response_.decisions.at(0).remaining, 4);
  std::string text = "1 1767225600 5\n";
  append_text(text, limit_, {{1'767'225'600'200'000'000, std::get<0>(limit_).stamp}, 17});
  reply("$" + std::to_string(text.size()) + "\r\n" + text + "\r\n");
  ASSERT_EQ(response_.kind, StoreResponse::Kind::decided) << response_.error;
  EXPECT_EQ(response_.decisions.at(0).remaining, 2);
  EXPECT_EQ(response_.receipts.at(0).birth, 17u);
}

TEST_F(LimitScriptTest, SendsTheLimitsOfThisRequestNotOfTheOneBefore) {
  const auto command_for = [&](const core::Limit& limit, Permits cost, StoreVerb verb) {
    item_.limit = &limit;
    item_.ask.cost = cost;
    StoreRequest other_request = request();
    other_request.verb = verb;
    script_.start(other_request, {});
    std::string command;
    script_.append_command(command, false);
    return command;
  };
  const core::Limit other = *core::Bucket::make({20, 1, seconds{1}}, 5);
  const std::string first = command_for(limit_, 1, StoreVerb::take);
  EXPECT_NE(command_for(limit_, 2, StoreVerb::take), first);
  EXPECT_NE(command_for(other, 1, StoreVerb::take), first);
  EXPECT_EQ(command_for(limit_, 1, StoreVerb::take), first);
  EXPECT_NE(command_for(limit_, 1, StoreVerb::peek), first);
  EXPECT_EQ(command_for(limit_, 1, StoreVerb::take), first);
}

// The core checks the script's decision at every call.
TEST_F(LimitScriptTest, ReportsWhenTheScriptDecidedOtherwise) {
  reply("*4\r\n:0\r\n:1767225600\r\n:5\r\n$-1\r\n");
  EXPECT_EQ(response_.kind, StoreResponse::Kind::misconfigured);
  EXPECT_THAT(response_.error, HasSubstr("decided differently"));
}

TEST_F(LimitScriptTest, PassesErrorsOn) {
  reply("-WEIRFORMAT weir1:{p:k}:=l holds no bucket of this version\r\n");
  EXPECT_EQ(response_.kind, StoreResponse::Kind::misconfigured);
  EXPECT_THAT(response_.error, HasSubstr("WEIRFORMAT weir1:{p:k}:=l"));
}

TEST_F(LimitScriptTest, RejectsMalformedReplies) {
  for (const char* malformed :
       {":1\r\n", "*0\r\n", "*3\r\n:1\r\n:1\r\n:1\r\n", "*4\r\n:1\r\n:-5\r\n:5\r\n$-1\r\n",
        "*4\r\n:1\r\n:99999999999\r\n:5\r\n$-1\r\n", "*4\r\n:1\r\n:5\r\n:1000000\r\n$-1\r\n",
        "*4\r\n:1\r\n:5\r\n:5\r\n$3\r\nabc\r\n", "*5\r\n:1\r\n:5\r\n:5\r\n$-1\r\n$-1\r\n",
        "*4\r\n:2\r\n:5\r\n:5\r\n$3\r\nabc\r\n", "$-1\r\n", "$0\r\n\r\n", "$5\r\n1 5 5\r\n",
        "$9\r\n1 5 5\nabc\r\n", "$7\r\n1 5 5\n\n\r\n", "$6\r\n1 a 5\n\r\n"}) {
    reply(malformed);
    EXPECT_EQ(response_.kind, StoreResponse::Kind::misconfigured) << malformed;
    EXPECT_THAT(response_.error, HasSubstr("not one of weir's scripts")) << malformed;
  }
}

TEST_F(LimitScriptTest, GivesUpWhenOtherClientsKeepChangingTheKey) {
  const std::string other =
      "*4\r\n:2\r\n:1767225600\r\n:5\r\n$51\r\n1b 5 0 1 17 0 1767225600 500000000 "
      "1767225600000000\r\n";
  for (int i = 0; i < 3; ++i) ASSERT_EQ(reply(other), LimitScript::ReplyResult::again);
  ASSERT_EQ(reply(other), LimitScript::ReplyResult::answered);
  EXPECT_EQ(response_.kind, StoreResponse::Kind::unavailable);
}

TEST_F(LimitScriptTest, AllocatesNothingForBucketsOnceWarm) {
  std::string text;
  append_text(text, limit_, {{1'767'225'600'000'000'001, std::get<0>(limit_).stamp}, 17});
  const std::string real =
      "*4\r\n:1\r\n:1767225600\r\n:5\r\n$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  std::string command;
  const auto call = [&] {
    command.clear();
    script_.start(request(), {});
    script_.append_command(command, false);
    parser_.parse(real);
    script_.on_reply(parser_.values(), response_);
  };
  call();
  const auto before = allocations();
  call();
  EXPECT_EQ(allocations(), before);
  EXPECT_EQ(response_.kind, StoreResponse::Kind::decided) << response_.error;
}

}  // namespace
}  // namespace weir::store::redis
