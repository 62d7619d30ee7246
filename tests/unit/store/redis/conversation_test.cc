// What is said, and what is made of replies; no server.

#include "store/redis/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../allocations.h"

namespace weir::store::redis {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using Kind = wire::RespValue::Kind;

class ConversationTest : public ::testing::Test {
 protected:
  ConversationTest() { conversation_.start(question(), {}); }

  SharedQuestion question() const { return {.items = {&item_, 1}, .wants_receipts = true}; }

  Conversation::Next reply(const std::string& resp) {
    EXPECT_EQ(parser_.parse(resp), wire::RespReplyParser::Status::reply) << resp;
    return conversation_.on_reply(parser_.values(), answer_);
  }

  core::Limit limit_ = *core::Bucket::make({10, 1, seconds{1}}, 5);
  SharedItem item_{.limit = &limit_, .key = "weir1:{p:k}:=l"};
  Conversation conversation_;
  wire::RespReplyParser parser_;
  SharedAnswer answer_;
};

TEST_F(ConversationTest, AsksByTheScriptsNameAndThenWithItsSource) {
  std::string by_name;
  conversation_.append_command(by_name, false);
  EXPECT_THAT(by_name, HasSubstr("*5\r\n$7\r\nEVALSHA\r\n$40\r\n" + take_script("b").sha1 +
                                 "\r\n$1\r\n1\r\n$14\r\nweir1:{p:k}:=l\r\n"));
  std::string with_source;
  conversation_.append_command(with_source, true);
  EXPECT_THAT(with_source, HasSubstr("$4\r\nEVAL\r\n"));
  EXPECT_THAT(with_source, HasSubstr(take_script("b").source));
}

TEST_F(ConversationTest, AnswersFromWhatWasFoundAndTheServersTime) {
  ASSERT_EQ(reply("*4\r\n:1\r\n:1767225600\r\n:5\r\n$-1\r\n"), Conversation::Next::answered);
  ASSERT_EQ(answer_.kind, SharedAnswer::Kind::decided) << answer_.error;
  EXPECT_EQ(answer_.now, instant(1'767'225'600'000'005'000));
  EXPECT_TRUE(answer_.verdict.decision);
  EXPECT_EQ(answer_.decisions.at(0).remaining, 4);
  EXPECT_EQ(answer_.receipts.at(0).birth, 1'767'225'600'000'005u);
  EXPECT_EQ(answer_.receipts.at(0).receipt.taken, 1);
}

TEST_F(ConversationTest, ReadsTheTextOfTheScriptForBucketsAsItReadsLists) {
  ASSERT_EQ(reply("$15\r\n1 1767225600 5\n\r\n"), Conversation::Next::answered);
  ASSERT_EQ(answer_.kind, SharedAnswer::Kind::decided) << answer_.error;
  EXPECT_EQ(answer_.now, instant(1'767'225'600'000'005'000));
  EXPECT_EQ(answer_.decisions.at(0).remaining, 4);
  std::string text = "1 1767225600 5\n";
  append_text(text, limit_, {{1'767'225'600'200'000'000, std::get<0>(limit_).stamp}, 17});
  reply("$" + std::to_string(text.size()) + "\r\n" + text + "\r\n");
  ASSERT_EQ(answer_.kind, SharedAnswer::Kind::decided) << answer_.error;
  EXPECT_EQ(answer_.decisions.at(0).remaining, 2);
  EXPECT_EQ(answer_.receipts.at(0).birth, 17u);
}

TEST_F(ConversationTest, SaysTheLimitsOfThisQuestionAndNotOfTheOneBefore) {
  const auto command_for = [&](const core::Limit& limit, Permits cost, SharedVerb verb) {
    item_.limit = &limit;
    item_.ask.cost = cost;
    SharedQuestion asked = question();
    asked.verb = verb;
    conversation_.start(asked, {});
    std::string command;
    conversation_.append_command(command, false);
    return command;
  };
  const core::Limit other = *core::Bucket::make({20, 1, seconds{1}}, 5);
  const std::string first = command_for(limit_, 1, SharedVerb::take);
  EXPECT_NE(command_for(limit_, 2, SharedVerb::take), first);
  EXPECT_NE(command_for(other, 1, SharedVerb::take), first);
  EXPECT_EQ(command_for(limit_, 1, SharedVerb::take), first);
  EXPECT_NE(command_for(limit_, 1, SharedVerb::peek), first);
  EXPECT_EQ(command_for(limit_, 1, SharedVerb::take), first);
}

// The core checks the script at every call.
TEST_F(ConversationTest, TellsWhenTheScriptDecidedOtherwise) {
  reply("*4\r\n:0\r\n:1767225600\r\n:5\r\n$-1\r\n");
  EXPECT_EQ(answer_.kind, SharedAnswer::Kind::misconfigured);
  EXPECT_THAT(answer_.error, HasSubstr("do not decide alike"));
}

TEST_F(ConversationTest, PassesErrorsOn) {
  reply("-WEIRFORMAT weir1:{p:k}:=l holds no bucket of this version\r\n");
  EXPECT_EQ(answer_.kind, SharedAnswer::Kind::misconfigured);
  EXPECT_THAT(answer_.error, HasSubstr("WEIRFORMAT weir1:{p:k}:=l"));
}

TEST_F(ConversationTest, TakesNothingForAnAnswerThatIsNone) {
  for (const char* strange :
       {":1\r\n", "*0\r\n", "*3\r\n:1\r\n:1\r\n:1\r\n", "*4\r\n:1\r\n:-5\r\n:5\r\n$-1\r\n",
        "*4\r\n:1\r\n:99999999999\r\n:5\r\n$-1\r\n", "*4\r\n:1\r\n:5\r\n:1000000\r\n$-1\r\n",
        "*4\r\n:1\r\n:5\r\n:5\r\n$3\r\nabc\r\n", "*5\r\n:1\r\n:5\r\n:5\r\n$-1\r\n$-1\r\n",
        "*4\r\n:2\r\n:5\r\n:5\r\n$3\r\nabc\r\n", "$-1\r\n", "$0\r\n\r\n", "$5\r\n1 5 5\r\n",
        "$9\r\n1 5 5\nabc\r\n", "$7\r\n1 5 5\n\n\r\n", "$6\r\n1 a 5\n\r\n"}) {
    reply(strange);
    EXPECT_EQ(answer_.kind, SharedAnswer::Kind::misconfigured) << strange;
    EXPECT_THAT(answer_.error, HasSubstr("not one that our scripts give")) << strange;
  }
}

TEST_F(ConversationTest, GivesUpWhenOthersAlwaysComeFirst) {
  const std::string other =
      "*4\r\n:2\r\n:1767225600\r\n:5\r\n$51\r\n1b 5 0 1 17 0 1767225600 500000000 "
      "1767225600000000\r\n";
  for (int i = 0; i < 3; ++i) ASSERT_EQ(reply(other), Conversation::Next::again);
  ASSERT_EQ(reply(other), Conversation::Next::answered);
  EXPECT_EQ(answer_.kind, SharedAnswer::Kind::unavailable);
}

TEST_F(ConversationTest, AboutBucketsAllocatesNothingOnceWarm) {
  std::string text;
  append_text(text, limit_, {{1'767'225'600'000'000'001, std::get<0>(limit_).stamp}, 17});
  const std::string real =
      "*4\r\n:1\r\n:1767225600\r\n:5\r\n$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  std::string command;
  const auto call = [&] {
    command.clear();
    conversation_.start(question(), {});
    conversation_.append_command(command, false);
    parser_.parse(real);
    conversation_.on_reply(parser_.values(), answer_);
  };
  call();
  const auto before = allocations();
  call();
  EXPECT_EQ(allocations(), before);
  EXPECT_EQ(answer_.kind, SharedAnswer::Kind::decided) << answer_.error;
}

}  // namespace
}  // namespace weir::store::redis
