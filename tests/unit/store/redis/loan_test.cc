// Loans: what is said, on a real server, and by a link. That the script lends as the ledger does,
// for any limit, is tested in tests/property/redis_loans_test.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "../../allocations.h"
#include "server.h"
#include "store/redis/link.h"
#include "store/redis/loan_talk.h"
#include "support/redis_connection.h"
#include "support/redis_server.h"

namespace weir::store::redis {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using weir::test_support::BlockingStore;
using Kind = SharedAnswer::Kind;

const core::Limit kBucket = *core::Bucket::make({10, 1, hours{1}}, 20);
const core::Limit kWindow = *core::Window::make({20, 1, hours{24}}, true);
const core::Limit kQueue = *core::Bucket::make_queue({10, 1, hours{1}}, 5, 0);
constexpr std::string_view kKey = "weir1:{p:k}:=l";
constexpr std::string_view kLoans = "weir1:{p:k}:=l:loans";

// ---- What is made of replies

class LoanTalkTest : public ::testing::Test {
 protected:
  LoanTalkTest() {
    EXPECT_TRUE(
        talk_.start({.limit = &kBucket, .key = kKey, .borrower = "a", .wanted = 5}, {}, answer_));
  }

  Call::Next reply(const std::string& resp) {
    EXPECT_EQ(parser_.parse(resp), wire::RespReplyParser::Status::reply) << resp;
    return talk_.on_reply(parser_.values(), answer_);
  }

  LoanTalk talk_;
  wire::RespReplyParser parser_;
  LoanAnswer answer_;
};

TEST_F(LoanTalkTest, AnswersFromWhatTheScriptSays) {
  ASSERT_EQ(reply("*9\r\n:1\r\n:1767225600\r\n:5\r\n$-1\r\n:3\r\n:2\r\n:1767225610000005\r\n:7\r\n"
                  ":0\r\n"),
            Call::Next::answered);
  ASSERT_EQ(answer_.kind, Kind::decided) << answer_.error;
  EXPECT_EQ(answer_.now, instant(1'767'225'600'000'005'000));
  EXPECT_EQ(answer_.lent, 3);
  EXPECT_EQ(answer_.kept, 2);
  EXPECT_EQ(answer_.lasts, seconds{10});
  EXPECT_EQ(answer_.outstanding, 7);
}

TEST_F(LoanTalkTest, StrangeRepliesAreNoAnswers) {
  const std::string time = ":1767225600\r\n:5\r\n";
  for (const std::string& strange : std::vector<std::string>{
           "+OK\r\n", ":1\r\n", "*0\r\n", "$2\r\nhi\r\n", "*3\r\n:1\r\n" + time,
           "*4\r\n:1\r\n" + time + "$-1\r\n",
           "*9\r\n:3\r\n" + time + "$-1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:0\r\n",
           "*9\r\n:1\r\n:-1\r\n:5\r\n$-1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:0\r\n",
           "*9\r\n:1\r\n:1\r\n:1000000\r\n$-1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:0\r\n",
           "*9\r\n:1\r\n" + time + "$2\r\nhi\r\n:1\r\n:1\r\n:1\r\n:1\r\n:0\r\n",
           "*9\r\n:1\r\n" + time + "$-1\r\n:-1\r\n:1\r\n:1\r\n:1\r\n:0\r\n",
           "*9\r\n:1\r\n" + time + "$-1\r\n$1\r\n1\r\n:1\r\n:1\r\n:1\r\n:0\r\n",
           "*9\r\n:1\r\n" + time + "$-1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:9223372036854775807\r\n"}) {
    ASSERT_EQ(reply(strange), Call::Next::answered);
    EXPECT_EQ(answer_.kind, Kind::misconfigured) << strange;
    EXPECT_THAT(answer_.error, HasSubstr("not one that our scripts give"));
  }
}

TEST_F(LoanTalkTest, GivesUpOnAKeyThatOthersChangeAllTheTime) {
  const std::string other = "*4\r\n:2\r\n:1767225600\r\n:5\r\n$18\r\n1b 2 0 1 3 4 5 6 7\r\n";
  for (int i = 0; i < 3; ++i) ASSERT_EQ(reply(other), Call::Next::again);
  ASSERT_EQ(reply(other), Call::Next::answered);
  EXPECT_EQ(answer_.kind, Kind::unavailable);
  EXPECT_THAT(answer_.error, HasSubstr("nothing was lent"));
}

TEST_F(LoanTalkTest, SaysWhyALimitIsNotLentFromWithoutAsking) {
  EXPECT_FALSE(talk_.start({.limit = &kQueue, .key = kKey}, {}, answer_));
  EXPECT_EQ(answer_.kind, Kind::misconfigured);
  EXPECT_THAT(answer_.error, HasSubstr("a queue cannot be leased"));
}

// ---- On a server

class LoanTest : public ::testing::Test {
 protected:
  LoanAnswer& borrow(const core::Limit& limit, std::string_view who, LoanQuestion question) {
    question.limit = &limit;
    question.key = kKey;
    question.borrower = who;
    question.number = ++questions_;
    if (question.term == Nanos{0}) question.term = hours{1};
    return store_.borrow(question);
  }
  SharedAnswer& ask(SharedVerb verb, const core::Limit& limit, Permits cost = 1) {
    const SharedItem item{.limit = &limit, .key = kKey, .ask = {.cost = cost}};
    return store_.ask({.verb = verb, .items = {&item, 1}});
  }
  std::string say(std::initializer_list<std::string_view> words) {
    return store_.connection().say(words);
  }
  void TearDown() override { say({"FLUSHALL"}); }

  BlockingStore store_{weir::test_support::RedisServer::shared().socket()};
  std::uint64_t questions_ = 0;
};

TEST_F(LoanTest, LendsByTheServersClockAndKeepsTextsForPeople) {
  const LoanAnswer& answer = borrow(kBucket, "node 1", {.wanted = 8});
  ASSERT_EQ(answer.kind, Kind::decided) << answer.error;
  EXPECT_EQ(answer.lent, 8);
  EXPECT_EQ(answer.remaining, 12);
  EXPECT_EQ(answer.outstanding, 8);
  EXPECT_EQ(answer.lasts, hours{1});
  EXPECT_GT(answer.now, instant(1'700'000'000'000'000'000));
  EXPECT_THAT(say({"GET", kKey}),
              MatchesRegex("1b 360000000000 0 1 [0-9]+ 0 [0-9]+ [0-9]+ [0-9]+"));
  EXPECT_THAT(say({"HGET", kLoans, "node 1"}), MatchesRegex("1 1 8 0 8 [0-9]+"));
}

TEST_F(LoanTest, OthersSeeWhatRemains) {
  for (const core::Limit* limit : {&kBucket, &kWindow}) {
    say({"FLUSHALL"});
    ASSERT_EQ(borrow(*limit, "a", {.wanted = 8}).lent, 8);
    EXPECT_EQ(ask(SharedVerb::peek, *limit).decisions.at(0).remaining, 12);
    ASSERT_TRUE(ask(SharedVerb::take, *limit, 7).verdict.decision);
    EXPECT_EQ(borrow(*limit, "b", {.wanted = 8}).lent, 5);
  }
}

TEST_F(LoanTest, LoansStayOutWhenAKeyIsReset) {
  for (const core::Limit* limit : {&kBucket, &kWindow}) {
    say({"FLUSHALL"});
    ASSERT_EQ(borrow(*limit, "a", {.wanted = 15}).lent, 15);
    ask(SharedVerb::reset, *limit);
    EXPECT_EQ(borrow(*limit, "b", {}).remaining, 5);
  }
}

// Fifteen permits of a bucket have drained an hour and a half after they have ended.
TEST_F(LoanTest, IsForgottenWhenAllOfItHasDrained) {
  borrow(kBucket, "a", {.wanted = 15});
  const int loans = std::stoi(say({"PTTL", kLoans}));
  EXPECT_LE(loans, 9'000'002);
  EXPECT_GT(loans, 8'000'000);
  EXPECT_LE(std::stoi(say({"PTTL", kKey})), 5'400'002);
  say({"FLUSHALL"});
  core::Bucket slower_soon = std::get<core::Bucket>(kBucket);
  slower_soon.known_rise = 3;
  borrow(slower_soon, "a", {.wanted = 15});
  EXPECT_GT(std::stoi(say({"PTTL", kKey})), 3 * 5'300'000);
  EXPECT_GT(std::stoi(say({"PTTL", kLoans})), 3'600'000 + 3 * 5'300'000);
  say({"FLUSHALL"});
  borrow(kWindow, "a", {.wanted = 15});
  EXPECT_LE(std::stoi(say({"PTTL", kLoans})), 3'600'002);
  EXPECT_GT(std::stoi(say({"PTTL", kLoans})), 3'000'000);
}

TEST_F(LoanTest, WritesNothingWhenNothingIsLent) {
  ASSERT_EQ(borrow(kWindow, "a", {.wanted = 20}).lent, 20);
  const std::string before = say({"GET", kKey});
  EXPECT_EQ(borrow(kWindow, "b", {.wanted = 1}).lent, 0);
  EXPECT_EQ(say({"GET", kKey}), before);
  EXPECT_EQ(say({"HLEN", kLoans}), "1");
}

TEST_F(LoanTest, RefusesTextsOfAnotherVersionLoudly) {
  for (const core::Limit* limit : {&kBucket, &kWindow}) {
    for (const char* text : {"2b 1 1 1 1 1 1", "hello", ""}) {
      say({"FLUSHALL"});
      say({"SET", kKey, text});
      EXPECT_EQ(borrow(*limit, "a", {.wanted = 1}).kind, Kind::misconfigured);
      EXPECT_THAT(borrow(*limit, "a", {}).error, HasSubstr("WEIRFORMAT weir1:{p:k}:=l holds"));
      say({"FLUSHALL"});
      say({"HSET", kLoans, "b", text});
      EXPECT_THAT(borrow(*limit, "a", {}).error, HasSubstr("WEIRFORMAT weir1:{p:k}:=l:loans"));
      EXPECT_EQ(say({"EXISTS", kKey}), "0");
    }
  }
}

TEST_F(LoanTest, RefusesKeysOfAnotherTypeLoudly) {
  say({"SET", kLoans, "x"});
  const LoanAnswer& answer = borrow(kBucket, "a", {.wanted = 1});
  EXPECT_EQ(answer.kind, Kind::misconfigured);
  EXPECT_THAT(answer.error, HasSubstr("WRONGTYPE"));
}

TEST_F(LoanTest, TakesACallersTimeOnlyUnderTheTestPrefix) {
  EXPECT_THAT(borrow(kBucket, "a", {.wanted = 1, .now = instant(5'000'000)}).error,
              HasSubstr("WEIRCLOCK"));
}

// 20 of 20 lent at 10/h; raised to 40 there are 20 more.
TEST_F(LoanTest, LoansArePermitsWhateverTheyCost) {
  const core::Limit higher = *core::Bucket::make({20, 1, hours{1}}, 40);
  ASSERT_EQ(borrow(kBucket, "a", {.wanted = 20}).lent, 20);
  const int before = store_.commands();
  const LoanAnswer& answer = borrow(higher, "b", {.wanted = 40});
  ASSERT_EQ(answer.kind, Kind::decided) << answer.error;
  EXPECT_EQ(answer.lent, 20);
  EXPECT_GE(store_.commands() - before, 2);
}

// Many at once are lent exactly what one would be.
TEST_F(LoanTest, LendsTogetherWhatOneWouldBeLentAlone) {
  const core::Limit window = *core::Window::make({1000, 1, hours{24}}, true);
  std::atomic<Permits> lent{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, name = std::to_string(i)] {
      BlockingStore own(weir::test_support::RedisServer::shared().socket());
      Permits has = 0;
      for (std::uint64_t k = 1; k <= 100; ++k) {
        const LoanAnswer& answer = own.borrow({.limit = &window,
                                               .key = kKey,
                                               .borrower = name,
                                               .number = k,
                                               .held = has,
                                               .wanted = 3,
                                               .term = hours{1}});
        has = answer.kept + answer.lent;
      }
      lent += has;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lent, 1000);
}

TEST_F(LoanTest, ScriptsAreCalledByTheNameThatTheServerGivesThem) {
  for (const core::Limit* limit : {&kBucket, &kWindow}) {
    const Script& script = lend_script(limit->index());
    EXPECT_EQ(say({"SCRIPT", "LOAD", script.source}), script.sha1);
  }
}

// ---- By a link

class Noting final : public Borrower {
 public:
  void on_loan(LoanAnswer& given) override {
    ++answers;
    answer = given;
  }
  int answers = 0;
  LoanAnswer answer{};
};

class LoanLinkTest : public ::testing::Test {
 protected:
  RedisLink& open(std::uint16_t port) {
    options_.make_talk = talk_by_scripts;
    options_.machine.timeout = options_.machine.connect_timeout = seconds{60};
    options_.address = {.host = "127.0.0.1", .port = port};
    options_.machine.server = options_.address.shown();
    return link_.emplace(options_, counts_, 1);
  }
  void borrow() {
    const int before = borrower_.answers;
    ++question_.number;
    link_->borrow(question_, borrower_);
    while (borrower_.answers == before) link_->wait(seconds{1});
  }

  LinkOptions options_;
  std::shared_ptr<LinkCounts> counts_ = std::make_shared<LinkCounts>();
  std::optional<RedisLink> link_;
  LoanQuestion question_{
      .limit = &kBucket, .key = kKey, .borrower = "a", .least = 1, .wanted = 3, .term = hours{1}};
  Noting borrower_;
};

TEST_F(LoanLinkTest, BorrowsFromAServer) {
  RedisServer server;
  open(server.port());
  while (!link_->machine().is_ready()) link_->wait(seconds{1});
  borrow();
  ASSERT_EQ(borrower_.answer.kind, Kind::decided) << borrower_.answer.error;
  EXPECT_EQ(borrower_.answer.lent, 3);
}

TEST_F(LoanLinkTest, NobodyListeningIsUnavailable) {
  open(free_port());
  borrow();
  EXPECT_EQ(borrower_.answer.kind, Kind::unavailable);
  EXPECT_THAT(borrower_.answer.error, HasSubstr("Connection refused"));
}

TEST_F(LoanLinkTest, ALimitThatIsNotLentFromIsAnsweredAtOnce) {
  open(free_port());
  question_.limit = &kQueue;
  link_->borrow(question_, borrower_);
  EXPECT_EQ(borrower_.answers, 1);
  EXPECT_EQ(borrower_.answer.kind, Kind::misconfigured);
}

TEST_F(LoanLinkTest, WhatIsOpenWhenItEndsIsUnavailable) {
  BoundSocket silent;
  silent.listen();
  open(silent.port);
  link_->borrow(question_, borrower_);
  link_.reset();
  EXPECT_EQ(borrower_.answers, 1);
  EXPECT_EQ(borrower_.answer.kind, Kind::unavailable);
}

TEST_F(LoanLinkTest, OnceWarmAsksForNoMemory) {
  RedisServer server;
  open(server.port());
  while (!link_->machine().is_ready()) link_->wait(seconds{1});
  for (int i = 0; i < 10; ++i) borrow();
  const std::size_t before = allocations();
  for (int i = 0; i < 100; ++i) borrow();
  EXPECT_EQ(allocations(), before);
  EXPECT_EQ(borrower_.answer.kind, Kind::decided);
}

}  // namespace
}  // namespace weir::store::redis
