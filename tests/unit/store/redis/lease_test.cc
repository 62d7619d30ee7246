// Leases: commands and replies, on a real server, and over a link.
// tests/property/lease_script_test.cc tests that the script leases as the ledger does, for any
// limit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "../../allocations.h"
#include "server.h"
#include "store/redis/lease_script.h"
#include "store/redis/link.h"
#include "support/redis_connection.h"
#include "support/redis_server.h"

namespace weir::store::redis {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using weir::test_support::BlockingStore;
using Kind = StoreResponse::Kind;

const core::Limit kBucket = *core::Bucket::make({10, 1, hours{1}}, 20);
const core::Limit kWindow = *core::Window::make({20, 1, hours{24}}, true);
const core::Limit kQueue = *core::Bucket::make_queue({10, 1, hours{1}}, 5, 0);
constexpr std::string_view kKey = "weir1:{p:k}:=l";
constexpr std::string_view kLeases = "weir1:{p:k}:=l:loans";

// ---- Commands and replies

class LeaseScriptTest : public ::testing::Test {
 protected:
  LeaseScriptTest() {
    EXPECT_TRUE(script_.start({.limit = &kBucket, .key = kKey, .borrower = "a", .wanted = 5}, {},
                              response_));
  }

  RedisCall::ReplyResult reply(const std::string& resp) {
    EXPECT_EQ(parser_.parse(resp), wire::RespReplyParser::Status::reply) << resp;
    return script_.on_reply(parser_.values(), response_);
  }

  LeaseScript script_;
  wire::RespReplyParser parser_;
  LeaseResponse response_;
};

TEST_F(LeaseScriptTest, DecodesTheReplyOfTheScript) {
  ASSERT_EQ(reply("*9\r\n:1\r\n:1767225600\r\n:5\r\n$-1\r\n:3\r\n:2\r\n:1767225610000005\r\n:7\r\n"
                  ":0\r\n"),
            RedisCall::ReplyResult::answered);
  ASSERT_EQ(response_.kind, Kind::decided) << response_.error;
  EXPECT_EQ(response_.now, instant(1'767'225'600'000'005'000));
  EXPECT_EQ(response_.lent, 3);
  EXPECT_EQ(response_.kept, 2);
  EXPECT_EQ(response_.lasts, seconds{10});
  EXPECT_EQ(response_.outstanding, 7);
}

TEST_F(LeaseScriptTest, RejectsMalformedReplies) {
  const std::string time = ":1767225600\r\n:5\r\n";
  for (const std::string& malformed : std::vector<std::string>{
           "+OK\r\n", ":1\r\n", "*0\r\n", "$2\r\nhi\r\n", "*3\r\n:1\r\n" + time,
           "*4\r\n:1\r\n" + time + "$-1\r\n",
           "*9\r\n:3\r\n" + time + "$-1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:0\r\n",
           "*9\r\n:1\r\n:-1\r\n:5\r\n$-1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:0\r\n",
           "*9\r\n:1\r\n:1\r\n:1000000\r\n$-1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:0\r\n",
           "*9\r\n:1\r\n" + time + "$2\r\nhi\r\n:1\r\n:1\r\n:1\r\n:1\r\n:0\r\n",
           "*9\r\n:1\r\n" + time + "$-1\r\n:-1\r\n:1\r\n:1\r\n:1\r\n:0\r\n",
           "*9\r\n:1\r\n" + time + "$-1\r\n$1\r\n1\r\n:1\r\n:1\r\n:1\r\n:0\r\n",
           "*9\r\n:1\r\n" + time + "$-1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:9223372036854775807\r\n"}) {
    ASSERT_EQ(reply(malformed), RedisCall::ReplyResult::answered);
    EXPECT_EQ(response_.kind, Kind::misconfigured) << malformed;
    EXPECT_THAT(response_.error, HasSubstr("not one of weir's scripts"));
  }
}

TEST_F(LeaseScriptTest, GivesUpWhenOtherClientsKeepChangingTheKey) {
  const std::string other = "*4\r\n:2\r\n:1767225600\r\n:5\r\n$18\r\n1b 2 0 1 3 4 5 6 7\r\n";
  for (int i = 0; i < 3; ++i) ASSERT_EQ(reply(other), RedisCall::ReplyResult::again);
  ASSERT_EQ(reply(other), RedisCall::ReplyResult::answered);
  EXPECT_EQ(response_.kind, Kind::unavailable);
  EXPECT_THAT(response_.error, HasSubstr("nothing was leased"));
}

TEST_F(LeaseScriptTest, RejectsALimitThatCannotBeLeasedWithoutACommand) {
  EXPECT_FALSE(script_.start({.limit = &kQueue, .key = kKey}, {}, response_));
  EXPECT_EQ(response_.kind, Kind::misconfigured);
  EXPECT_THAT(response_.error, HasSubstr("a queue cannot be leased"));
}

// ---- On a server

class LeaseOnServerTest : public ::testing::Test {
 protected:
  LeaseResponse& request_lease(const core::Limit& limit, std::string_view who,
                               LeaseRequest request) {
    request.limit = &limit;
    request.key = kKey;
    request.borrower = who;
    request.number = ++requests_;
    if (request.term == Nanos{0}) request.term = hours{1};
    return store_.request_lease(request);
  }
  StoreResponse& ask(StoreVerb verb, const core::Limit& limit, Permits cost = 1) {
    const StoreItem item{.limit = &limit, .key = kKey, .ask = {.cost = cost}};
    return store_.ask({.verb = verb, .items = {&item, 1}});
  }
  std::string say(std::initializer_list<std::string_view> words) {
    return store_.connection().say(words);
  }
  void TearDown() override { say({"FLUSHALL"}); }

  BlockingStore store_{weir::test_support::RedisServer::shared().socket()};
  std::uint64_t requests_ = 0;
};

TEST_F(LeaseOnServerTest, IsGrantedByTheServersClockAndStoredAsReadableText) {
  const LeaseResponse& answer = request_lease(kBucket, "node 1", {.wanted = 8});
  ASSERT_EQ(answer.kind, Kind::decided) << answer.error;
  EXPECT_EQ(answer.lent, 8);
  EXPECT_EQ(answer.remaining, 12);
  EXPECT_EQ(answer.outstanding, 8);
  EXPECT_EQ(answer.lasts, hours{1});
  EXPECT_GT(answer.now, instant(1'700'000'000'000'000'000));
  EXPECT_THAT(say({"GET", kKey}),
              MatchesRegex("1b 360000000000 0 1 [0-9]+ 0 [0-9]+ [0-9]+ [0-9]+"));
  EXPECT_THAT(say({"HGET", kLeases, "node 1"}), MatchesRegex("1 1 8 0 8 [0-9]+"));
}

TEST_F(LeaseOnServerTest, ReducesThePermitsThatRemainForOthers) {
  for (const core::Limit* limit : {&kBucket, &kWindow}) {
    say({"FLUSHALL"});
    ASSERT_EQ(request_lease(*limit, "a", {.wanted = 8}).lent, 8);
    EXPECT_EQ(ask(StoreVerb::peek, *limit).decisions.at(0).remaining, 12);
    ASSERT_TRUE(ask(StoreVerb::take, *limit, 7).verdict.decision);
    EXPECT_EQ(request_lease(*limit, "b", {.wanted = 8}).lent, 5);
  }
}

TEST_F(LeaseOnServerTest, StaysOutstandingWhenItsKeyIsReset) {
  for (const core::Limit* limit : {&kBucket, &kWindow}) {
    say({"FLUSHALL"});
    ASSERT_EQ(request_lease(*limit, "a", {.wanted = 15}).lent, 15);
    ask(StoreVerb::reset, *limit);
    EXPECT_EQ(request_lease(*limit, "b", {}).remaining, 5);
  }
}

// Fifteen permits of a bucket have drained an hour and a half after the end of their lease.
TEST_F(LeaseOnServerTest, ExpiresWhenAllPermitsHaveDrained) {
  request_lease(kBucket, "a", {.wanted = 15});
  const int leases = std::stoi(say({"PTTL", kLeases}));
  EXPECT_LE(leases, 9'000'002);
  EXPECT_GT(leases, 8'000'000);
  EXPECT_LE(std::stoi(say({"PTTL", kKey})), 5'400'002);
  say({"FLUSHALL"});
  core::Bucket slower_soon = std::get<core::Bucket>(kBucket);
  slower_soon.known_rise = 3;
  request_lease(slower_soon, "a", {.wanted = 15});
  EXPECT_GT(std::stoi(say({"PTTL", kKey})), 3 * 5'300'000);
  EXPECT_GT(std::stoi(say({"PTTL", kLeases})), 3'600'000 + 3 * 5'300'000);
  say({"FLUSHALL"});
  request_lease(kWindow, "a", {.wanted = 15});
  EXPECT_LE(std::stoi(say({"PTTL", kLeases})), 3'600'002);
  EXPECT_GT(std::stoi(say({"PTTL", kLeases})), 3'000'000);
}

TEST_F(LeaseOnServerTest, WritesNothingWhenNothingIsLeased) {
  ASSERT_EQ(request_lease(kWindow, "a", {.wanted = 20}).lent, 20);
  const std::string before = say({"GET", kKey});
  EXPECT_EQ(request_lease(kWindow, "b", {.wanted = 1}).lent, 0);
  EXPECT_EQ(say({"GET", kKey}), before);
  EXPECT_EQ(say({"HLEN", kLeases}), "1");
}

TEST_F(LeaseOnServerTest, RejectsTextsOfAnotherVersionWithAnError) {
  for (const core::Limit* limit : {&kBucket, &kWindow}) {
    for (const char* text : {"2b 1 1 1 1 1 1", "hello", ""}) {
      say({"FLUSHALL"});
      say({"SET", kKey, text});
      EXPECT_EQ(request_lease(*limit, "a", {.wanted = 1}).kind, Kind::misconfigured);
      EXPECT_THAT(request_lease(*limit, "a", {}).error,
                  HasSubstr("WEIRFORMAT weir1:{p:k}:=l holds"));
      say({"FLUSHALL"});
      say({"HSET", kLeases, "b", text});
      EXPECT_THAT(request_lease(*limit, "a", {}).error,
                  HasSubstr("WEIRFORMAT weir1:{p:k}:=l:loans"));
      EXPECT_EQ(say({"EXISTS", kKey}), "0");
    }
  }
}

TEST_F(LeaseOnServerTest, RejectsKeysOfAnotherTypeWithAnError) {
  say({"SET", kLeases, "x"});
  const LeaseResponse& answer = request_lease(kBucket, "a", {.wanted = 1});
  EXPECT_EQ(answer.kind, Kind::misconfigured);
  EXPECT_THAT(answer.error, HasSubstr("WRONGTYPE"));
}

TEST_F(LeaseOnServerTest, AcceptsACallersTimeOnlyUnderTheTestPrefix) {
  EXPECT_THAT(request_lease(kBucket, "a", {.wanted = 1, .now = instant(5'000'000)}).error,
              HasSubstr("WEIRCLOCK"));
}

// 20 of 20 permits are leased at 10/h. After the limit is raised to 40, there are 20 more.
TEST_F(LeaseOnServerTest, CountsPermitsNotTheirPrice) {
  const core::Limit higher = *core::Bucket::make({20, 1, hours{1}}, 40);
  ASSERT_EQ(request_lease(kBucket, "a", {.wanted = 20}).lent, 20);
  const int before = store_.commands();
  const LeaseResponse& answer = request_lease(higher, "b", {.wanted = 40});
  ASSERT_EQ(answer.kind, Kind::decided) << answer.error;
  EXPECT_EQ(answer.lent, 20);
  EXPECT_GE(store_.commands() - before, 2);
}

TEST_F(LeaseOnServerTest, ConcurrentHoldersGetExactlyTheLimit) {
  const core::Limit window = *core::Window::make({1000, 1, hours{24}}, true);
  std::atomic<Permits> lent{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, name = std::to_string(i)] {
      BlockingStore own(weir::test_support::RedisServer::shared().socket());
      Permits has = 0;
      for (std::uint64_t k = 1; k <= 100; ++k) {
        const LeaseResponse& answer = own.request_lease({.limit = &window,
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

TEST_F(LeaseOnServerTest, ScriptsHaveTheSha1ThatTheServerComputes) {
  for (const core::Limit* limit : {&kBucket, &kWindow}) {
    const LuaScript& script = lease_script(limit->index());
    EXPECT_EQ(say({"SCRIPT", "LOAD", script.source}), script.sha1);
  }
}

// ---- Over a link

class NotingCallback final : public LeaseCallback {
 public:
  void on_lease(LeaseResponse& given) override {
    ++answers;
    answer = given;
  }
  int answers = 0;
  LeaseResponse answer{};
};

class LeaseLinkTest : public ::testing::Test {
 protected:
  RedisLink& open(std::uint16_t port) {
    options_.make_codec = make_script_codec;
    options_.connection.timeout = options_.connection.connect_timeout = seconds{60};
    options_.address = {.host = "127.0.0.1", .port = port};
    options_.connection.server = options_.address.shown();
    return link_.emplace(options_, counts_, 1);
  }
  void lease() {
    const int before = callback_.answers;
    ++request_.number;
    link_->request_lease(request_, callback_);
    while (callback_.answers == before) link_->wait(seconds{1});
  }

  LinkOptions options_;
  std::shared_ptr<LinkCounts> counts_ = std::make_shared<LinkCounts>();
  std::optional<RedisLink> link_;
  LeaseRequest request_{
      .limit = &kBucket, .key = kKey, .borrower = "a", .least = 1, .wanted = 3, .term = hours{1}};
  NotingCallback callback_;
};

TEST_F(LeaseLinkTest, GetsALeaseOfAServer) {
  RedisServer server;
  open(server.port());
  while (!link_->fsm().is_ready()) link_->wait(seconds{1});
  lease();
  ASSERT_EQ(callback_.answer.kind, Kind::decided) << callback_.answer.error;
  EXPECT_EQ(callback_.answer.lent, 3);
}

TEST_F(LeaseLinkTest, AClosedPortIsUnavailable) {
  open(free_port());
  lease();
  EXPECT_EQ(callback_.answer.kind, Kind::unavailable);
  EXPECT_THAT(callback_.answer.error, HasSubstr("Connection refused"));
}

TEST_F(LeaseLinkTest, ALimitThatCannotBeLeasedFailsAtOnce) {
  open(free_port());
  request_.limit = &kQueue;
  link_->request_lease(request_, callback_);
  EXPECT_EQ(callback_.answers, 1);
  EXPECT_EQ(callback_.answer.kind, Kind::misconfigured);
}

TEST_F(LeaseLinkTest, PendingRequestsAreUnavailableWhenItIsDestroyed) {
  BoundSocket silent;
  silent.listen();
  open(silent.port);
  link_->request_lease(request_, callback_);
  link_.reset();
  EXPECT_EQ(callback_.answers, 1);
  EXPECT_EQ(callback_.answer.kind, Kind::unavailable);
}

TEST_F(LeaseLinkTest, AllocatesNothingOnceWarm) {
  RedisServer server;
  open(server.port());
  while (!link_->fsm().is_ready()) link_->wait(seconds{1});
  for (int i = 0; i < 10; ++i) lease();
  const std::size_t before = allocations();
  for (int i = 0; i < 100; ++i) lease();
  EXPECT_EQ(allocations(), before);
  EXPECT_EQ(callback_.answer.kind, Kind::decided);
}

}  // namespace
}  // namespace weir::store::redis
