// The client without sockets: every byte, and the time, is in the test's hand.

#include "store/redis/machine.h"

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

class MachineTest : public testing::Test {
 protected:
  MachineTest() { options.server = "redis://here"; }

  Machine& machine() {
    if (!machine_) {
      machine_ = std::make_unique<Machine>(
          options, counts, [this](LogLevel, std::string_view line) { lines.emplace_back(line); },
          now);
    }
    return *machine_;
  }

  // What it sends.
  std::string said() {
    std::string text{machine().unsent()};
    machine().on_sent(text.size());
    return text;
  }
  void hears(std::string_view bytes) { machine().on_bytes(bytes, now); }
  void pass(Nanos time) {
    now += time;
    machine().on_time(now);
  }
  // To when it wants to be woken, and no earlier.
  void pass_to_wake() {
    ASSERT_NE(machine().wake_at(), kForever);
    now = std::max(now, machine().wake_at());
    machine().on_time(now);
  }
  // Until it wants to connect.
  void pass_pause() {
    while (!machine().wants_connection()) pass_to_wake();
  }
  void be_ready() {
    pass_pause();
    machine().on_connected(now);
    said();
    hears(kHello);
    ASSERT_TRUE(machine().is_ready());
    said();
  }
  FakeCall& call(std::string word = "hello", std::optional<Nanos> within = {}) {
    FakeCall& made = calls.emplace_back(std::move(word));
    machine().call(made, now, within.value_or(options.timeout));
    return made;
  }

  MachineOptions options;
  LinkCounts counts;
  std::vector<std::string> lines;
  Nanos now = std::chrono::hours{1};
  std::deque<FakeCall> calls;

 private:
  std::unique_ptr<Machine> machine_;
};

std::string command(std::initializer_list<std::string_view> words) {
  std::string out;
  append_words(out, {words.begin(), words.size()});
  return out;
}

// ---- The handshake

TEST_F(MachineTest, SpeaksResp3WithItsName) {
  EXPECT_TRUE(machine().wants_connection());
  EXPECT_EQ(said(), "");
  machine().on_connected(now);
  EXPECT_EQ(said(), command({"HELLO", "3", "SETNAME", "weir"}));
  EXPECT_FALSE(machine().is_ready());
  hears(kHello);
  EXPECT_TRUE(machine().is_ready());
  EXPECT_EQ(said(), "");
  EXPECT_EQ(counts.connected.get(), 1u);
  EXPECT_THAT(lines, ElementsAre("redis://here: connected"));
}

TEST_F(MachineTest, LogsInAndSelectsItsDatabase) {
  options.login = {.user = "me", .password = "secret", .database = 3, .version = "1.2"};
  machine().on_connected(now);
  EXPECT_EQ(said(), command({"HELLO", "3", "AUTH", "me", "secret", "SETNAME", "weir"}));
  hears(kHello);
  EXPECT_EQ(said(), command({"SELECT", "3"}) + command({"CLIENT", "SETINFO", "LIB-NAME", "weir"}) +
                        command({"CLIENT", "SETINFO", "LIB-VER", "1.2"}));
  EXPECT_FALSE(machine().is_ready());
  // Servers before 7.2 do not know SETINFO.
  hears("+OK\r\n-ERR unknown subcommand\r\n-ERR unknown subcommand\r\n");
  EXPECT_TRUE(machine().is_ready());
}

TEST_F(MachineTest, APasswordAloneIsTheDefaultUsers) {
  options.login.password = "secret";
  machine().on_connected(now);
  EXPECT_EQ(said(), command({"HELLO", "3", "AUTH", "default", "secret", "SETNAME", "weir"}));
}

TEST_F(MachineTest, SpeaksResp2WithAServerThatKnowsNoHello) {
  for (const std::string_view error : {"-ERR unknown command `HELLO`\r\n", "-NOPROTO sorry\r\n"}) {
    LinkCounts other;
    options.login = {.password = "secret", .database = 1};
    Machine old(options, other, {}, now);
    old.on_connected(now);
    old.on_sent(old.unsent().size());
    old.on_bytes(error, now);
    EXPECT_EQ(old.unsent(), command({"AUTH", "secret"}) + command({"CLIENT", "SETNAME", "weir"}) +
                                command({"SELECT", "1"}));
    old.on_bytes("+OK\r\n-ERR no such thing\r\n+OK\r\n", now);
    EXPECT_TRUE(old.is_ready());
  }
}

TEST_F(MachineTest, AWrongPasswordIsAMisconfiguration) {
  options.login.password = "wrong";
  FakeCall& waiting = call();
  machine().on_connected(now);
  hears("-WRONGPASS invalid username-password pair\r\n");
  EXPECT_FALSE(machine().wants_connection());
  EXPECT_TRUE(waiting.has_misconfiguration());
  EXPECT_THAT(waiting.reason, HasSubstr("correct the user and password"));
  EXPECT_TRUE(call().has_misconfiguration());
  EXPECT_THAT(lines.back(), StartsWith("redis://here: cannot connect: WRONGPASS"));
  // Somebody may have put it right.
  be_ready();
  EXPECT_TRUE(call().is_open());
}

TEST_F(MachineTest, AMissingPasswordAndADatabaseThatIsNoneAreMisconfigurations) {
  machine().on_connected(now);
  hears("-NOAUTH HELLO must be called with the client already authenticated\r\n");
  EXPECT_THAT(call().reason, HasSubstr("write the password into the address"));

  LinkCounts other;
  options.login.database = 99;
  Machine far(options, other, {}, now);
  far.on_connected(now);
  far.on_bytes(kHello, now);
  far.on_bytes("-ERR DB index is out of range\r\n", now);
  FakeCall late;
  far.call(late, now);
  EXPECT_TRUE(late.has_misconfiguration());
}

TEST_F(MachineTest, TooManyClientsAreAnOutage) {
  FakeCall& waiting = call();
  machine().on_connected(now);
  hears("-ERR max number of clients reached\r\n");
  machine().on_disconnected("the server has closed the connection", now);
  EXPECT_TRUE(waiting.is_unavailable());
  EXPECT_THAT(waiting.reason, HasSubstr("max number of clients"));
}

TEST_F(MachineTest, CallsWaitForTheConnectionAndAreSentInOrder) {
  call("a");
  call("b");
  EXPECT_EQ(said(), "");
  machine().on_connected(now);
  EXPECT_EQ(said(), command({"HELLO", "3", "SETNAME", "weir"}));
  call("c");
  hears(kHello);
  EXPECT_EQ(said(), "<a><b><c>");
}

// ---- Replies

TEST_F(MachineTest, RepliesGoToTheCallsInOrder) {
  be_ready();
  FakeCall& a = call("a");
  FakeCall& b = call("b");
  EXPECT_EQ(said(), "<a><b>");
  hears("+one\r\n");
  EXPECT_TRUE(a.was_answered());
  EXPECT_TRUE(b.is_open());
  hears("+two\r\n");
  EXPECT_THAT(a.replies, ElementsAre("one"));
  EXPECT_THAT(b.replies, ElementsAre("two"));
}

TEST_F(MachineTest, RepliesMayComeByteByByte) {
  machine().on_connected(now);
  for (const char c : kHello) hears({&c, 1});
  EXPECT_TRUE(machine().is_ready());
  FakeCall& a = call("a");
  FakeCall& b = call("b");
  constexpr std::string_view replies = "$5\r\nfi\r\nt\r\n+two\r\n";
  for (const char c : replies) hears({&c, 1});
  EXPECT_THAT(a.replies, ElementsAre("fi\r\nt"));
  EXPECT_THAT(b.replies, ElementsAre("two"));
}

TEST_F(MachineTest, NewsThatNobodyAskedForAreIgnored) {
  be_ready();
  FakeCall& a = call("a");
  hears(">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n+one\r\n>1\r\n+x\r\n");
  EXPECT_THAT(a.replies, ElementsAre("one"));
  EXPECT_TRUE(machine().is_ready());
}

TEST_F(MachineTest, AScriptThatIsNotThereIsSentWithItsSource) {
  be_ready();
  FakeCall& a = call("a");
  FakeCall& b = call("b");
  FakeCall& c = call("c");
  EXPECT_EQ(said(), "<a><b><c>");
  hears("+one\r\n-NOSCRIPT No matching script\r\n+three\r\n");
  EXPECT_TRUE(a.was_answered());
  EXPECT_TRUE(b.is_open());
  EXPECT_TRUE(c.was_answered());
  EXPECT_EQ(said(), "<source of b>");
  hears("+two\r\n");
  EXPECT_THAT(b.replies, ElementsAre("two"));
}

TEST_F(MachineTest, AScriptThatIsNotThereEvenWithItsSourceIsAMisconfiguration) {
  be_ready();
  FakeCall& a = call("a");
  hears("-NOSCRIPT\r\n");
  hears("-NOSCRIPT\r\n");
  EXPECT_TRUE(a.has_misconfiguration());
}

TEST_F(MachineTest, AnUnfinishedCallIsSentAgainWithinItsTime) {
  be_ready();
  FakeCall& a = call("a");
  a.agains = 1;
  pass(milliseconds{30});
  FakeCall& b = call("b");
  said();
  hears("+one\r\n");
  EXPECT_EQ(said(), "<a>");
  pass(milliseconds{20});
  EXPECT_TRUE(a.is_unavailable());
  EXPECT_TRUE(b.is_open());
  hears("+b\r\n+late\r\n");
  EXPECT_THAT(b.replies, ElementsAre("b"));
  EXPECT_THAT(a.replies, ElementsAre("one"));
}

TEST_F(MachineTest, WhoIsAnsweredMayCallAtOnce) {
  be_ready();
  FakeCall& a = call("a");
  a.then = [&] {
    a.then = {};
    a.answers = 0;
    machine().call(a, now);
  };
  FakeCall& b = call("b");
  said();
  hears("+1\r\n+2\r\n");
  EXPECT_TRUE(b.was_answered());
  EXPECT_EQ(said(), "<a>");
  hears("+3\r\n");
  EXPECT_THAT(a.replies, ElementsAre("1", "3"));
}

TEST_F(MachineTest, BytesThatAreNoRepliesEndTheConnection) {
  be_ready();
  FakeCall& a = call("a");
  hears("HTTP/1.1 400 Bad Request\r\n");
  EXPECT_TRUE(a.is_unavailable());
  EXPECT_FALSE(machine().wants_connection());
  EXPECT_THAT(lines.back(), HasSubstr("does not speak as Redis does"));
}

TEST_F(MachineTest, AnotherServiceAtTheAddressIsAMisconfiguration) {
  FakeCall& a = call("a");
  machine().on_connected(now);
  hears("SSH-2.0-OpenSSH_9.2\r\n");
  EXPECT_TRUE(a.has_misconfiguration());
  EXPECT_THAT(a.reason, HasSubstr("is there another service at this address?"));
}

TEST_F(MachineTest, AReplyThatNobodyAskedForEndsTheConnection) {
  be_ready();
  hears("+hm\r\n");
  EXPECT_FALSE(machine().wants_connection());
}

// ---- Errors

TEST_F(MachineTest, OutagesAreUnavailableAndTheConnectionStays) {
  be_ready();
  for (const std::string_view error :
       {"LOADING Redis is loading", "BUSY a script", "OOM command not allowed", "MISCONF disk",
        "MASTERDOWN Link", "NOREPLICAS Not enough", "CLUSTERDOWN Hash slot", "TRYAGAIN keys"}) {
    FakeCall& a = call();
    hears("-" + std::string(error) + "\r\n");
    EXPECT_TRUE(a.is_unavailable()) << error;
    EXPECT_THAT(a.reason, StartsWith(std::string(error)));
    EXPECT_TRUE(machine().is_ready());
  }
  EXPECT_EQ(counts.unavailable.get(), 8u);
}

TEST_F(MachineTest, WhatSomebodyMustPutRightIsLoudAndMisconfigured) {
  be_ready();
  for (const std::string_view error :
       {"NOPERM this user", "WRONGTYPE Operation", "CROSSSLOT Keys", "WEIRFORMAT 9",
        "ERR user_script:1: no", "EXECABORT x", "WHATEVER else", "", "MOVED 1 a:1", "ASK 1 a:1"}) {
    lines.clear();
    FakeCall& a = call();
    hears("-" + std::string(error) + "\r\n");
    EXPECT_TRUE(a.has_misconfiguration()) << error;
    EXPECT_EQ(lines.size(), 1u) << error;
    EXPECT_TRUE(machine().is_ready());
  }
}

TEST_F(MachineTest, ANodeOfAClusterSaysHowToWriteItsAddress) {
  be_ready();
  FakeCall& a = call();
  hears("-MOVED 3999 127.0.0.1:6381\r\n");
  EXPECT_THAT(a.reason, HasSubstr("redis+cluster://"));
}

TEST_F(MachineTest, AReplicaIsLeftOnceItsRepliesAreRead) {
  be_ready();
  FakeCall& a = call("a");
  FakeCall& b = call("b");
  FakeCall& c = call("c");
  hears("-READONLY You can't write against a read only replica.\r\n+two\r\n");
  EXPECT_TRUE(a.is_unavailable());
  EXPECT_TRUE(b.was_answered());
  EXPECT_TRUE(c.is_unavailable());
  EXPECT_FALSE(machine().wants_connection());
  be_ready();
}

TEST_F(MachineTest, AnUnauthenticatedConnectionIsMadeAnew) {
  be_ready();
  FakeCall& a = call("a");
  hears("-NOAUTH Authentication required.\r\n");
  EXPECT_TRUE(a.has_misconfiguration());
  EXPECT_FALSE(machine().wants_connection());
}

// ---- Deadlines

TEST_F(MachineTest, ACallThatTakesTooLongIsUnavailableAndItsReplyGoesNowhere) {
  be_ready();
  FakeCall& a = call("a");
  said();
  EXPECT_EQ(machine().wake_at(), now + options.timeout);
  pass(options.timeout - Nanos{1});
  EXPECT_TRUE(a.is_open());
  FakeCall& b = call("b");
  pass(Nanos{1});
  EXPECT_TRUE(a.is_unavailable());
  EXPECT_EQ(counts.timeouts.get(), 1u);
  EXPECT_EQ(counts.unavailable.get(), 0u) << "no call is counted twice";
  EXPECT_TRUE(b.is_open());
  hears("+late\r\n+two\r\n");
  EXPECT_THAT(a.replies, IsEmpty());
  EXPECT_THAT(b.replies, ElementsAre("two"));
}

TEST_F(MachineTest, TheTimeOfACallBeginsBeforeItIsConnected) {
  FakeCall& a = call("a");
  pass(options.timeout);
  EXPECT_TRUE(a.is_unavailable());
  machine().on_connected(now);
  said();
  hears(kHello);
  EXPECT_EQ(said(), "");
}

TEST_F(MachineTest, TooManyCallsAreRefusedAtOnceAlsoIfTheyHaveTimedOut) {
  options.most_calls = 2;
  options.breaker_after = 100;
  be_ready();
  call();
  call();
  EXPECT_TRUE(call().is_unavailable());
  pass(options.timeout);
  EXPECT_TRUE(call().is_unavailable());
  hears("+1\r\n");
  EXPECT_TRUE(call().is_open());
}

TEST_F(MachineTest, TooManyBytesAreRefusedAtOnce) {
  options.most_bytes = 10;
  be_ready();
  EXPECT_TRUE(call("0123456789").is_open());
  EXPECT_TRUE(call("a").is_unavailable());
  said();
  EXPECT_TRUE(call("a").is_open());
}

// ---- The breaker

class BreakerTest : public MachineTest {
 protected:
  void open() {
    be_ready();
    for (std::uint32_t i = 0; i < options.breaker_after; ++i) call();
    said();
    pass(options.timeout);
    ASSERT_TRUE(machine().breaker_is_open());
  }
  std::string replies(std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += "+late\r\n";
    return text;
  }
};

TEST_F(BreakerTest, OpensAfterCallsInARowThatTimedOut) {
  be_ready();
  for (std::uint32_t i = 1; i < options.breaker_after; ++i) call();
  pass(options.timeout);
  EXPECT_FALSE(machine().breaker_is_open());
  call();
  pass(options.timeout);
  EXPECT_TRUE(machine().breaker_is_open());
  EXPECT_EQ(counts.breaker_open.get(), 1u);
  FakeCall& refused = call();
  EXPECT_TRUE(refused.is_unavailable());
  EXPECT_THAT(refused.reason, HasSubstr("is not asked until it does"));
}

// They tell less about the server than about what the caller has waited for before.
TEST_F(BreakerTest, CallsWithLittleTimeTimeOutEarlyAndKeepItClosed) {
  be_ready();
  for (std::uint32_t i = 0; i < 2 * options.breaker_after; ++i) {
    call("hello", options.timeout / 2 - Nanos{1});
  }
  pass(options.timeout / 2 - Nanos{2});
  EXPECT_TRUE(calls.back().is_open());
  pass(Nanos{1});
  for (const FakeCall& one : calls) EXPECT_TRUE(one.is_unavailable());
  EXPECT_FALSE(machine().breaker_is_open());
}

TEST_F(BreakerTest, AnAnswerInBetweenKeepsItClosed) {
  be_ready();
  for (std::uint32_t i = 1; i < options.breaker_after; ++i) call();
  pass(options.timeout);
  call();
  hears(replies(options.breaker_after));
  for (std::uint32_t i = 1; i < options.breaker_after; ++i) call();
  pass(options.timeout);
  EXPECT_FALSE(machine().breaker_is_open());
}

TEST_F(BreakerTest, AnAnsweredProbeClosesIt) {
  open();
  EXPECT_EQ(said(), "");
  pass_to_wake();
  EXPECT_EQ(said(), command({"PING"}));
  EXPECT_TRUE(call().is_unavailable());
  hears(replies(options.breaker_after));
  EXPECT_TRUE(machine().breaker_is_open());
  hears("+PONG\r\n");
  EXPECT_FALSE(machine().breaker_is_open());
  EXPECT_EQ(counts.breaker_open.get(), 0u);
  EXPECT_TRUE(call().is_open());
}

TEST_F(BreakerTest, AProbeThatIsAnsweredLateIsFollowedByAnother) {
  open();
  pass_to_wake();
  said();
  pass(options.timeout + Nanos{1});
  hears(replies(options.breaker_after) + "+PONG\r\n");
  EXPECT_TRUE(machine().breaker_is_open());
  pass_to_wake();
  EXPECT_EQ(said(), command({"PING"}));
  hears("+PONG\r\n");
  EXPECT_FALSE(machine().breaker_is_open());
}

TEST_F(BreakerTest, ThereIsOneProbeAtATime) {
  open();
  pass_to_wake();
  EXPECT_EQ(said(), command({"PING"}));
  pass(options.probe_interval * 2);
  EXPECT_EQ(said(), "");
}

TEST_F(BreakerTest, AServerThatStaysSilentIsConnectedAnew) {
  open();
  while (machine().wants_connection()) pass_to_wake();
  EXPECT_THAT(lines.back(), HasSubstr("it does not answer"));
  EXPECT_TRUE(machine().breaker_is_open());
  EXPECT_TRUE(call().is_unavailable());
  be_ready();
  EXPECT_FALSE(machine().breaker_is_open());
}

// ---- Connections that are lost, or not made

TEST_F(MachineTest, WhatIsInFlightWhenTheConnectionIsLostIsUnavailable) {
  be_ready();
  FakeCall& a = call("a");
  machine().on_disconnected("Connection reset by peer", now);
  EXPECT_TRUE(a.is_unavailable());
  EXPECT_EQ(a.reason, "Connection reset by peer");
  EXPECT_EQ(counts.connected.get(), 0u);
  // The next attempt comes soon.
  FakeCall& b = call("b");
  EXPECT_TRUE(b.is_open());
  be_ready();
  EXPECT_TRUE(b.is_open());
  hears("+b\r\n");
  EXPECT_TRUE(b.was_answered());
  EXPECT_EQ(counts.connects.get(), 2u);
}

TEST_F(MachineTest, HalfAReplyOfAnOldConnectionIsForgotten) {
  be_ready();
  call("a");
  hears("$5\r\nab");
  machine().on_disconnected("gone", now);
  be_ready();
  FakeCall& b = call("b");
  hears("+b\r\n");
  EXPECT_THAT(b.replies, ElementsAre("b"));
}

TEST_F(MachineTest, BehindAFailedAttemptCallsFailAtOnce) {
  FakeCall& a = call("a");
  machine().on_disconnected("Connection refused", now);
  EXPECT_TRUE(a.is_unavailable());
  EXPECT_TRUE(call().is_unavailable());
  pass_pause();
  EXPECT_TRUE(call().is_unavailable());
  be_ready();
  EXPECT_TRUE(call().is_open());
}

TEST_F(MachineTest, AConnectionThatIsNotMadeInTimeIsGivenUp) {
  machine();
  pass(options.connect_timeout - Nanos{1});
  EXPECT_TRUE(machine().wants_connection());
  pass(Nanos{1});
  EXPECT_FALSE(machine().wants_connection());
  pass_pause();
  machine().on_connected(now);
  pass(options.connect_timeout);
  EXPECT_FALSE(machine().wants_connection());
  EXPECT_THAT(lines.back(), HasSubstr("connected, but it does not answer"));
}

TEST_F(MachineTest, AttemptsBecomeRarerAndNoTwoLinksKeepStep) {
  machine();
  std::vector<Nanos> pauses;
  for (int i = 0; i < 12; ++i) {
    machine().on_disconnected("Connection refused", now);
    pauses.push_back(machine().wake_at() - now);
    pass_pause();
  }
  Nanos longest = options.least_back_off;
  for (const Nanos pause : pauses) {
    EXPECT_GE(pause, longest / 2);
    EXPECT_LE(pause, longest);
    longest = std::min(longest * 2, options.most_back_off);
  }
  EXPECT_EQ(longest, options.most_back_off);
  // Told once, not with each attempt.
  EXPECT_EQ(lines.size(), 1u);

  options.seed = 2;
  LinkCounts others;
  Machine other(options, others, {}, now);
  other.on_disconnected("Connection refused", now);
  EXPECT_NE(other.wake_at() - now, pauses.front());
}

TEST_F(MachineTest, AnAnswerMakesTheNextPauseShortAgain) {
  machine();
  for (int i = 0; i < 8; ++i) {
    machine().on_disconnected("Connection refused", now);
    pass_pause();
  }
  be_ready();
  call();
  hears("+fine\r\n");
  machine().on_disconnected("gone", now);
  EXPECT_LE(machine().wake_at() - now, options.least_back_off);
}

TEST_F(MachineTest, TheEndIsToldToAll) {
  be_ready();
  FakeCall& a = call("a");
  machine().on_disconnected("gone", now);
  FakeCall& b = call("b");
  machine().end();
  EXPECT_TRUE(a.is_unavailable());
  EXPECT_TRUE(b.is_unavailable());
  EXPECT_TRUE(call().is_unavailable());
  EXPECT_EQ(machine().wake_at(), kForever);
}

// ---- Counts

TEST_F(MachineTest, CountsHowLongAnswersTook) {
  be_ready();
  call();
  now += std::chrono::microseconds{100};
  hears("+1\r\n");
  EXPECT_EQ(counts.calls.get(), 1u);
  EXPECT_EQ(counts.latency_sum.get(), 100'000u);
  const std::size_t bucket = latency_bucket(std::chrono::microseconds{100});
  EXPECT_EQ(counts.latency[bucket].get(), 1u);
  EXPECT_LT(Nanos{100'000}, latency_bound(bucket));
  EXPECT_GE(Nanos{100'000}, latency_bound(bucket - 1));
}

}  // namespace
}  // namespace weir::store::redis
