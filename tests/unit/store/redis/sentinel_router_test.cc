// Sentinels without sockets: the test provides every byte and the time.

#include "store/redis/sentinel_router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "fake_servers.h"

namespace weir::store::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

const std::string kAddressCommand =
    "*3\r\n$8\r\nSENTINEL\r\n$23\r\nget-master-addr-by-name\r\n$4\r\nmain\r\n";
const std::string kSubscribeCommand = "*2\r\n$9\r\nSUBSCRIBE\r\n$14\r\n+switch-master\r\n";
constexpr std::string_view kSubscribed = ">3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n";
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
    finder.pump(servers.now);
  }
  void receive(std::uint16_t port, std::string_view bytes) {
    servers.receive(port, bytes);
    finder.pump(servers.now);
  }
  void advance(Nanos time) {
    servers.now += time;
    finder.on_timer(servers.now);
    finder.pump(servers.now);
  }
  void find() {
    start();
    servers.make_ready(1);
    servers.sent(1);
    receive(1, kMaster);
    ASSERT_TRUE(finder.take_result()->master);
  }

  FakeServers servers;
  MasterFinder finder{{.hosts = {{"a", 1}, {"b", 2}}, .master = "main"}, servers.maker()};
};

TEST_F(MasterFinderTest, AsksForTheMasterAndSubscribesOnTheSameConnection) {
  start();
  servers.make_ready(1);
  EXPECT_EQ(servers.sent(1), kAddressCommand);
  EXPECT_TRUE(finder.is_busy());
  EXPECT_FALSE(finder.take_result());
  receive(1, kMaster);
  EXPECT_EQ(finder.take_result()->master, (HostPort{"m", 6379}));
  EXPECT_EQ(servers.sent(1), kSubscribeCommand);
  receive(1, kSubscribed);
  EXPECT_FALSE(finder.take_switch());
  // The next lookup uses the same connection.
  start();
  EXPECT_EQ(servers.sent(1), kAddressCommand);
}

TEST_F(MasterFinderTest, AsksTheNextSentinelIfOneIsUnreachableOrDoesNotAnswer) {
  start();
  servers.refuse(1);
  finder.pump(servers.now);
  ASSERT_TRUE(servers.has(2));
  servers.make_ready(2);
  EXPECT_EQ(servers.sent(2), kAddressCommand);
  receive(2, kMaster);
  EXPECT_TRUE(finder.take_result()->master);
  // The Sentinel that answered is asked first the next time.
  start();
  servers.sent(2);
  advance(kSentinelTimeout);
  EXPECT_TRUE(servers.has(1));
  EXPECT_TRUE(finder.is_busy());
}

TEST_F(MasterFinderTest, NoAnsweringSentinelIsAnOutage) {
  start();
  servers.refuse(1);
  finder.pump(servers.now);
  servers.refuse(2);
  finder.pump(servers.now);
  const auto result = finder.take_result();
  ASSERT_TRUE(result);
  EXPECT_FALSE(result->master);
  EXPECT_EQ(result->failure, CallFailure::unavailable);
  EXPECT_THAT(result->why, HasSubstr("no Sentinel answers: a:1: Connection refused"));
}

TEST_F(MasterFinderTest, AnUnknownMasterNameIsAMisconfiguration) {
  for (const std::string_view unknown : {"*-1\r\n", "_\r\n"}) {
    start();
    servers.make_ready(1);
    receive(1, unknown);
    servers.make_ready(2);
    receive(2, unknown);
    const auto result = finder.take_result();
    ASSERT_TRUE(result);
    EXPECT_EQ(result->failure, CallFailure::misconfigured);
    EXPECT_THAT(result->why, HasSubstr("no Sentinel knows a master named main"));
  }
}

TEST_F(MasterFinderTest, SendsThePasswordOnlyAfterNoauth) {
  start();
  servers.at(1).on_connected(servers.now);
  EXPECT_EQ(servers.sent(1).find("secret"), std::string::npos);
  servers.receive(1, "-NOAUTH HELLO must be called with the client already authenticated\r\n");
  EXPECT_THAT(servers.sent(1), HasSubstr("AUTH\r\n$2\r\nme\r\n$6\r\nsecret\r\n"));
  servers.receive(1, FakeServers::kHello);
  EXPECT_EQ(servers.sent(1), kAddressCommand);
}

TEST_F(MasterFinderTest, AWrongPasswordIsAMisconfiguration) {
  start();
  for (const std::uint16_t port : {1, 2}) {
    servers.at(port).on_connected(servers.now);
    servers.receive(port, "-NOAUTH no\r\n");
    receive(port, "-WRONGPASS invalid username-password pair\r\n");
  }
  EXPECT_EQ(finder.take_result()->failure, CallFailure::misconfigured);
}

TEST_F(MasterFinderTest, ReportsASwitchOfItsOwnMasterOnly) {
  find();
  receive(1, kSubscribed);
  receive(1, switched("other 1.1.1.1 1 2.2.2.2 2"));
  EXPECT_FALSE(finder.take_switch());
  receive(1, switched("main 1.1.1.1 1 2.2.2.2 2"));
  EXPECT_TRUE(finder.take_switch());
  EXPECT_FALSE(finder.take_switch());
}

TEST_F(MasterFinderTest, SubscribesAtAnotherSentinelWhenTheConnectionIsLost) {
  find();
  receive(1, kSubscribed);
  servers.at(1).on_disconnected("gone", servers.now);
  finder.pump(servers.now);
  EXPECT_FALSE(finder.take_result());
  advance(seconds{1});
  ASSERT_TRUE(finder.is_busy());
  servers.refuse(1);
  finder.pump(servers.now);
  servers.make_ready(2);
  EXPECT_EQ(servers.sent(2), kAddressCommand);
  receive(2, kMaster);
  // The master may have changed meanwhile.
  EXPECT_TRUE(finder.take_result()->master);
  EXPECT_EQ(servers.sent(2), kSubscribeCommand);
}

TEST_F(MasterFinderTest, AsksASentinelThatRefusesTheSubscription) {
  find();
  EXPECT_EQ(servers.sent(1), kSubscribeCommand);
  receive(1, "-NOPERM this user has no permissions\r\n");
  EXPECT_EQ(servers.sent(1), "");
  start();
  EXPECT_EQ(servers.sent(1), kAddressCommand);
}

TEST(HandshakeTest, FailsIfTheServerIsNotTheMaster) {
  const LoginOptions login{.to_master = true};
  for (const auto& [reply, progress] :
       {std::pair{"*3\r\n$6\r\nmaster\r\n:1\r\n*0\r\n", Handshake::HandshakeProgress::done},
        {"*2\r\n$5\r\nslave\r\n:1\r\n", Handshake::HandshakeProgress::failed}}) {
    Handshake handshake(login);
    std::string out;
    handshake.begin(out);
    wire::RespReplyParser parser;
    parser.parse(FakeServers::kHello);
    EXPECT_EQ(handshake.on_reply(parser.values(), out), Handshake::HandshakeProgress::more);
    EXPECT_THAT(out, HasSubstr("ROLE"));
    parser.parse(reply);
    EXPECT_EQ(handshake.on_reply(parser.values(), out), progress);
    EXPECT_EQ(handshake.failure(), CallFailure::unavailable);
  }
}

}  // namespace
}  // namespace weir::store::redis
