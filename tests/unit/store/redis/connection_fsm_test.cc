// The state machine without sockets: the test provides every byte and the time.

#include "store/redis/connection_fsm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>

#include "fake_call.h"

namespace weir::store::redis {
namespace {

using std::chrono::milliseconds;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr std::string_view kHello = "%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n";

class ConnectionFsmTest : public testing::Test {
 protected:
  ConnectionFsmTest() { options.server = "redis://here"; }

  ConnectionFsm& fsm() {
    if (!fsm_) {
      fsm_ = std::make_unique<ConnectionFsm>(
          options, counts,
          [this](LinkLogLevel, std::string_view line) { lines.emplace_back(line); }, now);
    }
    return *fsm_;
  }

  // Takes the bytes to send.
  std::string sent() {
    std::string text{fsm().unsent()};
    fsm().on_sent(text.size());
    return text;
  }
  void receive(std::string_view bytes) { fsm().on_bytes(bytes, now); }
  void advance(Nanos time) {
    now += time;
    fsm().on_timer(now);
  }
  // Advances the time to the next timer.
  void pass_to_timer() {
    ASSERT_NE(fsm().wake_at(), kForever);
    now = std::max(now, fsm().wake_at());
    fsm().on_timer(now);
  }
  // Advances the time until it wants to connect.
  void pass_back_off() {
    while (!fsm().wants_connection()) pass_to_timer();
  }
  void make_ready() {
    pass_back_off();
    fsm().on_connected(now);
    sent();
    receive(kHello);
    ASSERT_TRUE(fsm().is_ready());
    sent();
  }
  FakeCall& call(std::string word = "hello", std::optional<Nanos> within = {}) {
    FakeCall& made = calls.emplace_back(std::move(word));
    fsm().call(made, now, within.value_or(options.timeout));
    return made;
  }

  ConnectionOptions options;
  LinkCounts counts;
  std::vector<std::string> lines;
  Nanos now = std::chrono::hours{1};
  std::deque<FakeCall> calls;

 private:
  std::unique_ptr<ConnectionFsm> fsm_;
};

std::string command(std::initializer_list<std::string_view> words) {
  std::string out;
  append_resp(out, {words.begin(), words.size()});
  return out;
}

// ---- The handshake

TEST_F(ConnectionFsmTest, NegotiatesResp3AndSetsTheClientName) {
  EXPECT_TRUE(fsm().wants_connection());
  EXPECT_EQ(sent(), "");
  fsm().on_connected(now);
  EXPECT_EQ(sent(), command({"HELLO", "3", "SETNAME", "weir"}));
  EXPECT_FALSE(fsm().is_ready());
  receive(kHello);
  EXPECT_TRUE(fsm().is_ready());
  EXPECT_EQ(sent(), "");
  EXPECT_EQ(counts.connected.get(), 1u);
  EXPECT_THAT(lines, ElementsAre("redis://here: connected"));
}

TEST_F(ConnectionFsmTest, LogsInAndSelectsItsDatabase) {
  options.login = {.user = "me", .password = "secret", .database = 3, .version = "1.2"};
  fsm().on_connected(now);
  EXPECT_EQ(sent(), command({"HELLO", "3", "AUTH", "me", "secret", "SETNAME", "weir"}));
  receive(kHello);
  EXPECT_EQ(sent(), command({"SELECT", "3"}) + command({"CLIENT", "SETINFO", "LIB-NAME", "weir"}) +
                        command({"CLIENT", "SETINFO", "LIB-VER", "1.2"}));
  EXPECT_FALSE(fsm().is_ready());
  // Servers before 7.2 do not know SETINFO.
  receive("+OK\r\n-ERR unknown subcommand\r\n-ERR unknown subcommand\r\n");
  EXPECT_TRUE(fsm().is_ready());
}

TEST_F(ConnectionFsmTest, SendsAPasswordWithoutAUserForTheDefaultUser) {
  options.login.password = "secret";
  fsm().on_connected(now);
  EXPECT_EQ(sent(), command({"HELLO", "3", "AUTH", "default", "secret", "SETNAME", "weir"}));
}

TEST_F(ConnectionFsmTest, FallsBackToResp2IfTheServerDoesNotKnowHello) {
  for (const std::string_view error : {"-ERR unknown command `HELLO`\r\n", "-NOPROTO sorry\r\n"}) {
    LinkCounts other;
    options.login = {.password = "secret", .database = 1};
    ConnectionFsm old(options, other, {}, now);
    old.on_connected(now);
    old.on_sent(old.unsent().size());
    old.on_bytes(error, now);
    EXPECT_EQ(old.unsent(), command({"AUTH", "secret"}) + command({"CLIENT", "SETNAME", "weir"}) +
                                command({"SELECT", "1"}));
    old.on_bytes("+OK\r\n-ERR no such thing\r\n+OK\r\n", now);
    EXPECT_TRUE(old.is_ready());
  }
}

TEST_F(ConnectionFsmTest, AWrongPasswordIsAMisconfiguration) {
  options.login.password = "wrong";
  FakeCall& waiting = call();
  fsm().on_connected(now);
  receive("-WRONGPASS invalid username-password pair\r\n");
  EXPECT_FALSE(fsm().wants_connection());
  EXPECT_TRUE(waiting.has_misconfiguration());
  EXPECT_THAT(waiting.reason, HasSubstr("correct the user and password"));
  EXPECT_TRUE(call().has_misconfiguration());
  EXPECT_THAT(lines.back(), StartsWith("redis://here: cannot connect: WRONGPASS"));
  // An operator may have fixed it.
  make_ready();
  EXPECT_TRUE(call().is_open());
}

TEST_F(ConnectionFsmTest, AMissingPasswordAndAnInvalidDatabaseAreMisconfigurations) {
  fsm().on_connected(now);
  receive("-NOAUTH HELLO must be called with the client already authenticated\r\n");
  EXPECT_THAT(call().reason, HasSubstr("write the password into the address"));

  LinkCounts other;
  options.login.database = 99;
  ConnectionFsm far(options, other, {}, now);
  far.on_connected(now);
  far.on_bytes(kHello, now);
  far.on_bytes("-ERR DB index is out of range\r\n", now);
  FakeCall late;
  far.call(late, now);
  EXPECT_TRUE(late.has_misconfiguration());
}

TEST_F(ConnectionFsmTest, TooManyClientsAreAnOutage) {
  FakeCall& waiting = call();
  fsm().on_connected(now);
  receive("-ERR max number of clients reached\r\n");
  fsm().on_disconnected("the server has closed the connection", now);
  EXPECT_TRUE(waiting.is_unavailable());
  EXPECT_THAT(waiting.reason, HasSubstr("max number of clients"));
}

TEST_F(ConnectionFsmTest, CallsWaitForTheConnectionAndAreSentInOrder) {
  call("a");
  call("b");
  EXPECT_EQ(sent(), "");
  fsm().on_connected(now);
  EXPECT_EQ(sent(), command({"HELLO", "3", "SETNAME", "weir"}));
  call("c");
  receive(kHello);
  EXPECT_EQ(sent(), "<a><b><c>");
}

// ---- Replies

TEST_F(ConnectionFsmTest, RepliesGoToTheCallsInOrder) {
  make_ready();
  FakeCall& a = call("a");
  FakeCall& b = call("b");
  EXPECT_EQ(sent(), "<a><b>");
  receive("+one\r\n");
  EXPECT_TRUE(a.was_answered());
  EXPECT_TRUE(b.is_open());
  receive("+two\r\n");
  EXPECT_THAT(a.replies, ElementsAre("one"));
  EXPECT_THAT(b.replies, ElementsAre("two"));
}

TEST_F(ConnectionFsmTest, RepliesMayComeByteByByte) {
  fsm().on_connected(now);
  for (const char c : kHello) receive({&c, 1});
  EXPECT_TRUE(fsm().is_ready());
  FakeCall& a = call("a");
  FakeCall& b = call("b");
  constexpr std::string_view replies = "$5\r\nfi\r\nt\r\n+two\r\n";
  for (const char c : replies) receive({&c, 1});
  EXPECT_THAT(a.replies, ElementsAre("fi\r\nt"));
  EXPECT_THAT(b.replies, ElementsAre("two"));
}

TEST_F(ConnectionFsmTest, IgnoresPushMessages) {
  make_ready();
  FakeCall& a = call("a");
  receive(">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n+one\r\n>1\r\n+x\r\n");
  EXPECT_THAT(a.replies, ElementsAre("one"));
  EXPECT_TRUE(fsm().is_ready());
}

TEST_F(ConnectionFsmTest, SendsTheSourceOfAScriptAfterNoscript) {
  make_ready();
  FakeCall& a = call("a");
  FakeCall& b = call("b");
  FakeCall& c = call("c");
  EXPECT_EQ(sent(), "<a><b><c>");
  receive("+one\r\n-NOSCRIPT No matching script\r\n+three\r\n");
  EXPECT_TRUE(a.was_answered());
  EXPECT_TRUE(b.is_open());
  EXPECT_TRUE(c.was_answered());
  EXPECT_EQ(sent(), "<source of b>");
  receive("+two\r\n");
  EXPECT_THAT(b.replies, ElementsAre("two"));
}

TEST_F(ConnectionFsmTest, NoscriptAfterTheSourceIsAMisconfiguration) {
  make_ready();
  FakeCall& a = call("a");
  receive("-NOSCRIPT\r\n");
  receive("-NOSCRIPT\r\n");
  EXPECT_TRUE(a.has_misconfiguration());
}

TEST_F(ConnectionFsmTest, AnUnfinishedCallIsSentAgainWithinItsTime) {
  make_ready();
  FakeCall& a = call("a");
  a.agains = 1;
  advance(milliseconds{30});
  FakeCall& b = call("b");
  sent();
  receive("+one\r\n");
  EXPECT_EQ(sent(), "<a>");
  advance(milliseconds{20});
  EXPECT_TRUE(a.is_unavailable());
  EXPECT_TRUE(b.is_open());
  receive("+b\r\n+late\r\n");
  EXPECT_THAT(b.replies, ElementsAre("b"));
  EXPECT_THAT(a.replies, ElementsAre("one"));
}

TEST_F(ConnectionFsmTest, ACallMayBeStartedFromWithinAReply) {
  make_ready();
  FakeCall& a = call("a");
  a.then = [&] {
    a.then = {};
    a.answers = 0;
    fsm().call(a, now);
  };
  FakeCall& b = call("b");
  sent();
  receive("+1\r\n+2\r\n");
  EXPECT_TRUE(b.was_answered());
  EXPECT_EQ(sent(), "<a>");
  receive("+3\r\n");
  EXPECT_THAT(a.replies, ElementsAre("1", "3"));
}

TEST_F(ConnectionFsmTest, BytesThatAreNotRespCloseTheConnection) {
  make_ready();
  FakeCall& a = call("a");
  receive("HTTP/1.1 400 Bad Request\r\n");
  EXPECT_TRUE(a.is_unavailable());
  EXPECT_FALSE(fsm().wants_connection());
  EXPECT_THAT(lines.back(), HasSubstr("does not speak the Redis protocol"));
}

TEST_F(ConnectionFsmTest, AnotherServiceAtTheAddressIsAMisconfiguration) {
  FakeCall& a = call("a");
  fsm().on_connected(now);
  receive("SSH-2.0-OpenSSH_9.2\r\n");
  EXPECT_TRUE(a.has_misconfiguration());
  EXPECT_THAT(a.reason, HasSubstr("is there another service at this address?"));
}

TEST_F(ConnectionFsmTest, AReplyWithoutARequestClosesTheConnection) {
  make_ready();
  receive("+hm\r\n");
  EXPECT_FALSE(fsm().wants_connection());
}

// ---- Errors

TEST_F(ConnectionFsmTest, OutagesAreUnavailableAndTheConnectionStays) {
  make_ready();
  for (const std::string_view error :
       {"LOADING Redis is loading", "BUSY a script", "OOM command not allowed", "MISCONF disk",
        "MASTERDOWN Link", "NOREPLICAS Not enough", "CLUSTERDOWN Hash slot", "TRYAGAIN keys"}) {
    FakeCall& a = call();
    receive("-" + std::string(error) + "\r\n");
    EXPECT_TRUE(a.is_unavailable()) << error;
    EXPECT_THAT(a.reason, StartsWith(std::string(error)));
    EXPECT_TRUE(fsm().is_ready());
  }
  EXPECT_EQ(counts.unavailable.get(), 8u);
}

TEST_F(ConnectionFsmTest, PermanentErrorsAreMisconfigurationsAndAreLogged) {
  make_ready();
  for (const std::string_view error :
       {"NOPERM this user", "WRONGTYPE Operation", "CROSSSLOT Keys", "WEIRFORMAT 9",
        "ERR user_script:1: no", "EXECABORT x", "WHATEVER else", "", "MOVED 1 a:1", "ASK 1 a:1"}) {
    lines.clear();
    FakeCall& a = call();
    receive("-" + std::string(error) + "\r\n");
    EXPECT_TRUE(a.has_misconfiguration()) << error;
    EXPECT_EQ(lines.size(), 1u) << error;
    EXPECT_TRUE(fsm().is_ready());
  }
}

TEST_F(ConnectionFsmTest, ARedirectionOfAClusterNodeExplainsTheRightUrl) {
  make_ready();
  FakeCall& a = call();
  receive("-MOVED 3999 127.0.0.1:6381\r\n");
  EXPECT_THAT(a.reason, HasSubstr("redis+cluster://"));
}

TEST_F(ConnectionFsmTest, ReconnectsFromAReplicaOnceItsRepliesAreRead) {
  make_ready();
  FakeCall& a = call("a");
  FakeCall& b = call("b");
  FakeCall& c = call("c");
  receive("-READONLY You can't write against a read only replica.\r\n+two\r\n");
  EXPECT_TRUE(a.is_unavailable());
  EXPECT_TRUE(b.was_answered());
  EXPECT_TRUE(c.is_unavailable());
  EXPECT_FALSE(fsm().wants_connection());
  make_ready();
}

TEST_F(ConnectionFsmTest, ReconnectsAfterNoauth) {
  make_ready();
  FakeCall& a = call("a");
  receive("-NOAUTH Authentication required.\r\n");
  EXPECT_TRUE(a.has_misconfiguration());
  EXPECT_FALSE(fsm().wants_connection());
}

// ---- Deadlines

TEST_F(ConnectionFsmTest, ACallThatTimesOutIsUnavailableAndItsLateReplyIsDropped) {
  make_ready();
  FakeCall& a = call("a");
  sent();
  EXPECT_EQ(fsm().wake_at(), now + options.timeout);
  advance(options.timeout - Nanos{1});
  EXPECT_TRUE(a.is_open());
  FakeCall& b = call("b");
  advance(Nanos{1});
  EXPECT_TRUE(a.is_unavailable());
  EXPECT_EQ(counts.timeouts.get(), 1u);
  EXPECT_EQ(counts.unavailable.get(), 0u) << "no call is counted twice";
  EXPECT_TRUE(b.is_open());
  receive("+late\r\n+two\r\n");
  EXPECT_THAT(a.replies, IsEmpty());
  EXPECT_THAT(b.replies, ElementsAre("two"));
}

TEST_F(ConnectionFsmTest, TheTimeoutOfACallIncludesConnecting) {
  FakeCall& a = call("a");
  advance(options.timeout);
  EXPECT_TRUE(a.is_unavailable());
  fsm().on_connected(now);
  sent();
  receive(kHello);
  EXPECT_EQ(sent(), "");
}

TEST_F(ConnectionFsmTest, FailsCallsBeyondTheMaximumAtOnceAndCountsTimedOutCallsAsPending) {
  options.max_pending_calls = 2;
  options.breaker_threshold = 100;
  make_ready();
  call();
  call();
  EXPECT_TRUE(call().is_unavailable());
  advance(options.timeout);
  EXPECT_TRUE(call().is_unavailable());
  receive("+1\r\n");
  EXPECT_TRUE(call().is_open());
}

TEST_F(ConnectionFsmTest, CallsBeyondTheMaximumOfUnsentBytesFailAtOnce) {
  options.max_unsent_bytes = 10;
  make_ready();
  EXPECT_TRUE(call("0123456789").is_open());
  EXPECT_TRUE(call("a").is_unavailable());
  sent();
  EXPECT_TRUE(call("a").is_open());
}

// ---- The breaker

class CircuitBreakerTest : public ConnectionFsmTest {
 protected:
  void open() {
    make_ready();
    for (std::uint32_t i = 0; i < options.breaker_threshold; ++i) call();
    sent();
    advance(options.timeout);
    ASSERT_TRUE(fsm().breaker_is_open());
  }
  std::string replies(std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += "+late\r\n";
    return text;
  }
};

TEST_F(CircuitBreakerTest, OpensAfterConsecutiveTimeouts) {
  make_ready();
  for (std::uint32_t i = 1; i < options.breaker_threshold; ++i) call();
  advance(options.timeout);
  EXPECT_FALSE(fsm().breaker_is_open());
  call();
  advance(options.timeout);
  EXPECT_TRUE(fsm().breaker_is_open());
  EXPECT_EQ(counts.breaker_open.get(), 1u);
  FakeCall& refused = call();
  EXPECT_TRUE(refused.is_unavailable());
  EXPECT_THAT(refused.reason, HasSubstr("no call is sent until it answers a PING"));
}

// Such timeouts are caused by the caller's earlier waits, not by the server.
TEST_F(CircuitBreakerTest, IgnoresTimeoutsOfCallsWithLessThanHalfTheTimeout) {
  make_ready();
  for (std::uint32_t i = 0; i < 2 * options.breaker_threshold; ++i) {
    call("hello", options.timeout / 2 - Nanos{1});
  }
  advance(options.timeout / 2 - Nanos{2});
  EXPECT_TRUE(calls.back().is_open());
  advance(Nanos{1});
  for (const FakeCall& one : calls) EXPECT_TRUE(one.is_unavailable());
  EXPECT_FALSE(fsm().breaker_is_open());
}

TEST_F(CircuitBreakerTest, AReplyBetweenTimeoutsKeepsItClosed) {
  make_ready();
  for (std::uint32_t i = 1; i < options.breaker_threshold; ++i) call();
  advance(options.timeout);
  call();
  receive(replies(options.breaker_threshold));
  for (std::uint32_t i = 1; i < options.breaker_threshold; ++i) call();
  advance(options.timeout);
  EXPECT_FALSE(fsm().breaker_is_open());
}

TEST_F(CircuitBreakerTest, ClosesWhenAProbeIsAnswered) {
  open();
  EXPECT_EQ(sent(), "");
  pass_to_timer();
  EXPECT_EQ(sent(), command({"PING"}));
  EXPECT_TRUE(call().is_unavailable());
  receive(replies(options.breaker_threshold));
  EXPECT_TRUE(fsm().breaker_is_open());
  receive("+PONG\r\n");
  EXPECT_FALSE(fsm().breaker_is_open());
  EXPECT_EQ(counts.breaker_open.get(), 0u);
  EXPECT_TRUE(call().is_open());
}

TEST_F(CircuitBreakerTest, SendsAnotherProbeAfterALateAnswer) {
  open();
  pass_to_timer();
  sent();
  advance(options.timeout + Nanos{1});
  receive(replies(options.breaker_threshold) + "+PONG\r\n");
  EXPECT_TRUE(fsm().breaker_is_open());
  pass_to_timer();
  EXPECT_EQ(sent(), command({"PING"}));
  receive("+PONG\r\n");
  EXPECT_FALSE(fsm().breaker_is_open());
}

TEST_F(CircuitBreakerTest, SendsOneProbeAtATime) {
  open();
  pass_to_timer();
  EXPECT_EQ(sent(), command({"PING"}));
  advance(options.probe_interval * 2);
  EXPECT_EQ(sent(), "");
}

TEST_F(CircuitBreakerTest, ReconnectsToAServerThatStaysSilent) {
  open();
  while (fsm().wants_connection()) pass_to_timer();
  EXPECT_THAT(lines.back(), HasSubstr("it does not answer"));
  EXPECT_TRUE(fsm().breaker_is_open());
  EXPECT_TRUE(call().is_unavailable());
  make_ready();
  EXPECT_FALSE(fsm().breaker_is_open());
}

// ---- Lost connections and failed attempts

TEST_F(ConnectionFsmTest, CallsInFlightAreUnavailableWhenTheConnectionIsLost) {
  make_ready();
  FakeCall& a = call("a");
  fsm().on_disconnected("Connection reset by peer", now);
  EXPECT_TRUE(a.is_unavailable());
  EXPECT_EQ(a.reason, "Connection reset by peer");
  EXPECT_EQ(counts.connected.get(), 0u);
  // New calls wait, because the next attempt comes soon.
  FakeCall& b = call("b");
  EXPECT_TRUE(b.is_open());
  make_ready();
  EXPECT_TRUE(b.is_open());
  receive("+b\r\n");
  EXPECT_TRUE(b.was_answered());
  EXPECT_EQ(counts.connects.get(), 2u);
}

TEST_F(ConnectionFsmTest, DropsAPartialReplyOfALostConnection) {
  make_ready();
  call("a");
  receive("$5\r\nab");
  fsm().on_disconnected("gone", now);
  make_ready();
  FakeCall& b = call("b");
  receive("+b\r\n");
  EXPECT_THAT(b.replies, ElementsAre("b"));
}

TEST_F(ConnectionFsmTest, CallsFailAtOnceAfterAFailedAttemptToConnect) {
  FakeCall& a = call("a");
  fsm().on_disconnected("Connection refused", now);
  EXPECT_TRUE(a.is_unavailable());
  EXPECT_TRUE(call().is_unavailable());
  pass_back_off();
  EXPECT_TRUE(call().is_unavailable());
  make_ready();
  EXPECT_TRUE(call().is_open());
}

TEST_F(ConnectionFsmTest, GivesUpAnAttemptToConnectAfterItsTimeout) {
  fsm();
  advance(options.connect_timeout - Nanos{1});
  EXPECT_TRUE(fsm().wants_connection());
  advance(Nanos{1});
  EXPECT_FALSE(fsm().wants_connection());
  pass_back_off();
  fsm().on_connected(now);
  advance(options.connect_timeout);
  EXPECT_FALSE(fsm().wants_connection());
  EXPECT_THAT(lines.back(), HasSubstr("connected, but it does not answer"));
}

TEST_F(ConnectionFsmTest, BacksOffExponentiallyWithJitter) {
  fsm();
  std::vector<Nanos> pauses;
  for (int i = 0; i < 12; ++i) {
    fsm().on_disconnected("Connection refused", now);
    pauses.push_back(fsm().wake_at() - now);
    pass_back_off();
  }
  Nanos longest = options.min_back_off;
  for (const Nanos pause : pauses) {
    EXPECT_GE(pause, longest / 2);
    EXPECT_LE(pause, longest);
    longest = std::min(longest * 2, options.max_back_off);
  }
  EXPECT_EQ(longest, options.max_back_off);
  // Logged once, not for each attempt.
  EXPECT_EQ(lines.size(), 1u);

  options.seed = 2;
  LinkCounts others;
  ConnectionFsm other(options, others, {}, now);
  other.on_disconnected("Connection refused", now);
  EXPECT_NE(other.wake_at() - now, pauses.front());
}

TEST_F(ConnectionFsmTest, AReplyResetsTheBackOff) {
  fsm();
  for (int i = 0; i < 8; ++i) {
    fsm().on_disconnected("Connection refused", now);
    pass_back_off();
  }
  make_ready();
  call();
  receive("+fine\r\n");
  fsm().on_disconnected("gone", now);
  EXPECT_LE(fsm().wake_at() - now, options.min_back_off);
}

TEST_F(ConnectionFsmTest, EndFailsAllPendingCalls) {
  make_ready();
  FakeCall& a = call("a");
  fsm().on_disconnected("gone", now);
  FakeCall& b = call("b");
  fsm().end();
  EXPECT_TRUE(a.is_unavailable());
  EXPECT_TRUE(b.is_unavailable());
  EXPECT_TRUE(call().is_unavailable());
  EXPECT_EQ(fsm().wake_at(), kForever);
}

// ---- Counts

TEST_F(ConnectionFsmTest, CountsResponseTimes) {
  make_ready();
  call();
  now += std::chrono::microseconds{100};
  receive("+1\r\n");
  EXPECT_EQ(counts.calls.get(), 1u);
  EXPECT_EQ(counts.latency_sum.get(), 100'000u);
  const std::size_t bucket = latency_bucket(std::chrono::microseconds{100});
  EXPECT_EQ(counts.latency[bucket].get(), 1u);
  EXPECT_LT(Nanos{100'000}, latency_bound(bucket));
  EXPECT_GE(Nanos{100'000}, latency_bound(bucket - 1));
}

}  // namespace
}  // namespace weir::store::redis
