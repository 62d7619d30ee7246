// Sentinels without sockets: every byte, and the time, is in the test's hand.

#include "store/redis/sentinels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "fake_peer.h"

namespace weir::store::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

const std::string kWhere =
    "*3\r\n$8\r\nSENTINEL\r\n$23\r\nget-master-addr-by-name\r\n$4\r\nmain\r\n";
const std::string kListen = "*2\r\n$9\r\nSUBSCRIBE\r\n$14\r\n+switch-master\r\n";
constexpr std::string_view kListening = ">3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n";
constexpr std::string_view kMaster = "*2\r\n$1\r\nm\r\n$4\r\n6379\r\n";

std::string switched(std::string_view text) {
  return ">3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$" + std::to_string(text.size()) +
         "\r\n" + std::string{text} + "\r\n";
}

class MasterFinderTest : public testing::Test {
 protected:
  MasterFinderTest() {
    servers.options.timeout = servers.options.connect_timeout = kSentinelTimeout;
    servers.options.login = {.user = "me", .password = "secret", .only_if_demanded = true};
  }

  void start() {
    finder.start(servers.now);
    finder.turn(servers.now);
  }
  void hears(std::uint16_t port, std::string_view bytes) {
    servers.hears(port, bytes);
    finder.turn(servers.now);
  }
  void pass(Nanos time) {
    servers.now += time;
    finder.on_time(servers.now);
    finder.turn(servers.now);
  }
  void find() {
    start();
    servers.be_ready(1);
    servers.said(1);
    hears(1, kMaster);
    ASSERT_TRUE(finder.take_finding()->master);
  }

  FakeServers servers;
  MasterFinder finder{{.hosts = {{"a", 1}, {"b", 2}}, .master = "main"}, servers.maker()};
};

TEST_F(MasterFinderTest, AsksWhereTheMasterIsAndStaysToListen) {
  start();
  servers.be_ready(1);
  EXPECT_EQ(servers.said(1), kWhere);
  EXPECT_TRUE(finder.is_busy());
  EXPECT_FALSE(finder.take_finding());
  hears(1, kMaster);
  EXPECT_EQ(finder.take_finding()->master, (Place{"m", 6379}));
  EXPECT_EQ(servers.said(1), kListen);
  hears(1, kListening);
  EXPECT_FALSE(finder.take_news());
  // The next time on the same connection.
  start();
  EXPECT_EQ(servers.said(1), kWhere);
}

TEST_F(MasterFinderTest, TheNextOneIsAskedIfOneCannotBeReachedOrDoesNotAnswer) {
  start();
  servers.refuse(1);
  finder.turn(servers.now);
  ASSERT_TRUE(servers.has(2));
  servers.be_ready(2);
  EXPECT_EQ(servers.said(2), kWhere);
  hears(2, kMaster);
  EXPECT_TRUE(finder.take_finding()->master);
  // Who has answered is asked first the next time.
  start();
  servers.said(2);
  pass(kSentinelTimeout);
  EXPECT_TRUE(servers.has(1));
  EXPECT_TRUE(finder.is_busy());
}

TEST_F(MasterFinderTest, NobodyWhoAnswersIsAnOutage) {
  start();
  servers.refuse(1);
  finder.turn(servers.now);
  servers.refuse(2);
  finder.turn(servers.now);
  const auto finding = finder.take_finding();
  ASSERT_TRUE(finding);
  EXPECT_FALSE(finding->master);
  EXPECT_EQ(finding->failure, Failure::unavailable);
  EXPECT_THAT(finding->why, HasSubstr("no Sentinel answers: a:1: Connection refused"));
}

TEST_F(MasterFinderTest, NobodyWhoKnowsTheNameIsAMistake) {
  for (const std::string_view unknown : {"*-1\r\n", "_\r\n"}) {
    start();
    servers.be_ready(1);
    hears(1, unknown);
    servers.be_ready(2);
    hears(2, unknown);
    const auto finding = finder.take_finding();
    ASSERT_TRUE(finding);
    EXPECT_EQ(finding->failure, Failure::misconfigured);
    EXPECT_THAT(finding->why, HasSubstr("no Sentinel knows a master by the name of main"));
  }
}

TEST_F(MasterFinderTest, APasswordIsOnlyForThoseWhoDemandOne) {
  start();
  servers.at(1).on_connected(servers.now);
  EXPECT_EQ(servers.said(1).find("secret"), std::string::npos);
  servers.hears(1, "-NOAUTH HELLO must be called with the client already authenticated\r\n");
  EXPECT_THAT(servers.said(1), HasSubstr("AUTH\r\n$2\r\nme\r\n$6\r\nsecret\r\n"));
  servers.hears(1, FakeServers::kHello);
  EXPECT_EQ(servers.said(1), kWhere);
}

TEST_F(MasterFinderTest, AWrongPasswordIsAMistake) {
  start();
  for (const std::uint16_t port : {1, 2}) {
    servers.at(port).on_connected(servers.now);
    servers.hears(port, "-NOAUTH no\r\n");
    hears(port, "-WRONGPASS invalid username-password pair\r\n");
  }
  EXPECT_EQ(finder.take_finding()->failure, Failure::misconfigured);
}

TEST_F(MasterFinderTest, HearsOfAnotherMasterOfThisNameOnly) {
  find();
  hears(1, kListening);
  hears(1, switched("other 1.1.1.1 1 2.2.2.2 2"));
  EXPECT_FALSE(finder.take_news());
  hears(1, switched("main 1.1.1.1 1 2.2.2.2 2"));
  EXPECT_TRUE(finder.take_news());
  EXPECT_FALSE(finder.take_news());
}

TEST_F(MasterFinderTest, WhoIsListenedToAndLostIsReplacedByAnother) {
  find();
  hears(1, kListening);
  servers.at(1).on_disconnected("gone", servers.now);
  finder.turn(servers.now);
  EXPECT_FALSE(finder.take_finding());
  pass(seconds{1});
  ASSERT_TRUE(finder.is_busy());
  servers.refuse(1);
  finder.turn(servers.now);
  servers.be_ready(2);
  EXPECT_EQ(servers.said(2), kWhere);
  hears(2, kMaster);
  // Where it is may have changed meanwhile.
  EXPECT_TRUE(finder.take_finding()->master);
  EXPECT_EQ(servers.said(2), kListen);
}

TEST_F(MasterFinderTest, OneThatMayNotListenIsAskedAllTheSame) {
  find();
  EXPECT_EQ(servers.said(1), kListen);
  hears(1, "-NOPERM this user has no permissions\r\n");
  EXPECT_EQ(servers.said(1), "");
  start();
  EXPECT_EQ(servers.said(1), kWhere);
}

TEST(HandshakeTest, WhoIsNotTheMasterIsNotWhoWeWant) {
  const Login login{.to_master = true};
  for (const auto& [reply, status] :
       {std::pair{"*3\r\n$6\r\nmaster\r\n:1\r\n*0\r\n", Handshake::Status::done},
        {"*2\r\n$5\r\nslave\r\n:1\r\n", Handshake::Status::failed}}) {
    Handshake handshake(login);
    std::string out;
    handshake.begin(out);
    wire::RespReplyParser parser;
    parser.parse(FakeServers::kHello);
    EXPECT_EQ(handshake.on_reply(parser.values(), out), Handshake::Status::more);
    EXPECT_THAT(out, HasSubstr("ROLE"));
    parser.parse(reply);
    EXPECT_EQ(handshake.on_reply(parser.values(), out), status);
    EXPECT_EQ(handshake.failure(), Failure::unavailable);
  }
}

}  // namespace
}  // namespace weir::store::redis
