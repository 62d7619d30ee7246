// A link and real servers: redis-server, and some that are none.

#include "store/redis/link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <optional>
#include <thread>

#include "../../net/certificates.h"
#include "fake_talk.h"
#include "server.h"

namespace weir::store::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Contains;
using testing::HasSubstr;

// Much longer than anything takes that works.
constexpr seconds kPatience{60};

class LinkTest : public testing::Test {
 protected:
  LinkTest() {
    options.make_talk = [] { return std::make_unique<FakeTalk>(); };
    options.log = [this](LogLevel, std::string_view line) { lines.emplace_back(line); };
    // What is to be answered is answered, however busy this machine is.
    options.machine.timeout = kPatience;
    options.machine.connect_timeout = kPatience;
    options.machine.most_back_off = milliseconds{50};
  }

  RedisLink& open(std::uint16_t port) {
    options.address.host = "127.0.0.1";
    options.address.port = port;
    return open();
  }
  RedisLink& open() {
    options.machine.server = options.address.shown();
    link.emplace(options, kept_counts, 1);
    return *link;
  }

  template <typename Condition>
  testing::AssertionResult runs_until(Condition holds) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > end) {
        return testing::AssertionFailure() << testing::PrintToString(lines);
      }
      link->wait(milliseconds{20});
    }
    return testing::AssertionSuccess();
  }
  testing::AssertionResult becomes_ready() {
    return runs_until([&] { return link->machine().is_ready(); });
  }
  FakeAsker& ask(std::string key = "key", Permits cost = 1) {
    FakeAsker& asker = askers.emplace_back(std::move(key), cost);
    link->ask(asker.question, asker);
    return asker;
  }
  testing::AssertionResult is_answered(FakeAsker& asker) {
    return runs_until([&] { return asker.is_answered(); });
  }
  // Asks until the answer is one.
  testing::AssertionResult is_decided_again() {
    return runs_until([&] {
      FakeAsker& asker = ask();
      return is_answered(asker) && asker.is_decided();
    });
  }

  LinkOptions options;
  std::shared_ptr<LinkCounts> kept_counts = std::make_shared<LinkCounts>();
  LinkCounts& counts = *kept_counts;
  std::vector<std::string> lines;
  std::deque<FakeAsker> askers;
  std::optional<RedisLink> link;
};

TEST_F(LinkTest, AsksAServer) {
  RedisServer server;
  open(server.port());
  ASSERT_TRUE(becomes_ready());
  FakeAsker& asker = ask();
  link->flush();
  ASSERT_TRUE(is_answered(asker));
  EXPECT_TRUE(asker.is_decided()) << asker.answer.error;
  EXPECT_TRUE(asker.answer.verdict.decision);
}

TEST_F(LinkTest, QuestionsThatAreFlushedTogetherAreOneRoundTrip) {
  RedisServer server;
  open(server.port());
  ASSERT_TRUE(is_decided_again());
  const std::uint64_t flushes = counts.flushes.get();
  for (int i = 0; i < 100; ++i) ask("key " + std::to_string(i));
  link->flush();
  EXPECT_EQ(counts.flushes.get(), flushes + 1);
  ASSERT_TRUE(is_answered(askers.back()));
  for (auto asker = askers.end() - 100; asker != askers.end(); ++asker) {
    EXPECT_TRUE(asker->is_decided());
  }
  EXPECT_GE(counts.flushed_calls.get(), 100u);
}

TEST_F(LinkTest, ATalkOfSeveralCommandsGoesOn) {
  RedisServer server;
  open(server.port());
  ASSERT_TRUE(becomes_ready());
  FakeAsker& asker = askers.emplace_back();
  asker.question.verb = SharedVerb::peek;
  link->ask(asker.question, asker);
  ASSERT_TRUE(is_answered(asker));
  EXPECT_TRUE(asker.is_decided());
}

TEST_F(LinkTest, WhoIsAnsweredMayAskFromWithin) {
  RedisServer server;
  open(server.port());
  ASSERT_TRUE(becomes_ready());
  FakeAsker& second = askers.emplace_back("second");
  FakeAsker& first = askers.emplace_back("first");
  first.then = [&] {
    link->ask(second.question, second);
    link->flush();
    link->run_ready();
  };
  link->ask(first.question, first);
  ASSERT_TRUE(is_answered(second));
  EXPECT_TRUE(second.is_decided());
}

// A thread that does not run for a while finds that the pause before the next attempt has passed
// when it gets to closing the connection of the last one.
TEST_F(LinkTest, ConnectsAgainWhenThePauseIsOverBeforeTheOldConnectionIsClosed) {
  BoundSocket server;
  server.listen();
  options.machine.least_back_off = Nanos{0};
  open(server.port);
  const auto is_asked = [&] {
    pollfd asked{.fd = server.socket.fd(), .events = POLLIN, .revents = 0};
    return poll(&asked, 1, 0) == 1;
  };
  ASSERT_TRUE(runs_until(is_asked));
  const net::Descriptor first = server.accept();
  constexpr std::string_view refusal = "-NOAUTH Authentication required.\r\n";
  ASSERT_EQ(write(first.fd(), refusal.data(), refusal.size()), std::ssize(refusal));
  EXPECT_TRUE(runs_until(is_asked));
}

TEST_F(LinkTest, ItsDescriptorTellsAnotherPoll) {
  RedisServer server;
  open(server.port());
  ASSERT_TRUE(becomes_ready());
  FakeAsker& asker = ask();
  link->flush();
  pollfd waits{.fd = link->descriptor(), .events = POLLIN, .revents = 0};
  while (!asker.is_answered()) {
    ASSERT_EQ(poll(&waits, 1, 60'000), 1);
    link->run_ready();
  }
  EXPECT_TRUE(asker.is_decided()) << asker.answer.error;
}

TEST_F(LinkTest, ScriptsThatAreFlushedAreSentAgain) {
  RedisServer server;
  open(server.port());
  ASSERT_TRUE(is_decided_again());
  server.kill();
  server.start();
  ASSERT_TRUE(is_decided_again());
}

TEST_F(LinkTest, ErrorsOfAServerAreExplained) {
  RedisServer server;
  open(server.port());
  ASSERT_TRUE(becomes_ready());
  for (const std::string error : {"OOM too much", "WEIRFORMAT 9", "ERR no"}) {
    FakeAsker& asker = askers.emplace_back();
    asker.question.holder = error;
    link->ask(asker.question, asker);
    ASSERT_TRUE(is_answered(asker));
    EXPECT_EQ(asker.is_unavailable(), error.starts_with("OOM")) << error;
    EXPECT_EQ(asker.is_misconfigured(), !error.starts_with("OOM")) << error;
    EXPECT_THAT(asker.answer.error,
                HasSubstr("redis://127.0.0.1:" + std::to_string(server.port())));
    EXPECT_THAT(asker.answer.error, HasSubstr(error));
  }
}

// ---- Ways to a server

TEST_F(LinkTest, ReachesAUnixSocket) {
  RedisServer server({}, 0);
  options.address.path = server.socket_path();
  open();
  ASSERT_TRUE(is_decided_again());
}

TEST_F(LinkTest, LooksUpAName) {
  RedisServer server;
  options.address = {.host = "localhost", .port = server.port()};
  open();
  ASSERT_TRUE(is_decided_again());
}

TEST_F(LinkTest, SaysThatANameIsNone) {
  options.address = {.host = "no-such-host.invalid", .port = 6379};
  open();
  FakeAsker& asker = ask();
  ASSERT_TRUE(is_answered(asker));
  EXPECT_TRUE(asker.is_unavailable());
  EXPECT_THAT(asker.answer.error, HasSubstr("cannot find no-such-host.invalid"));
}

TEST_F(LinkTest, MayEndWhileANameIsLookedUp) {
  options.address = {.host = "no-such-host.invalid", .port = 6379};
  open();
  FakeAsker& asker = ask();
  link.reset();
  EXPECT_TRUE(asker.is_unavailable());
}

TEST_F(LinkTest, LogsInAsAUserOfItsOwnDatabase) {
  RedisServer server({"--user", "limiter", "on", ">secret", "~*", "+@all"});
  options.machine.login = {.user = "limiter", .password = "secret", .database = 5};
  open(server.port());
  ASSERT_TRUE(is_decided_again());
}

TEST_F(LinkTest, AWrongPasswordIsAMisconfiguration) {
  RedisServer server({"--requirepass", "secret"});
  options.machine.login.password = "wrong";
  open(server.port());
  ASSERT_TRUE(runs_until([&] {
    FakeAsker& asker = ask();
    return is_answered(asker) && asker.is_misconfigured();
  }));
  EXPECT_THAT(lines, Contains(HasSubstr("WRONGPASS")));
}

TEST_F(LinkTest, AUserWithoutTheCommandsIsAMisconfiguration) {
  RedisServer server({"--user", "limiter", "on", ">secret", "~*", "+get"});
  options.machine.login = {.user = "limiter", .password = "secret"};
  open(server.port());
  ASSERT_TRUE(runs_until([&] {
    FakeAsker& asker = ask();
    return is_answered(asker) && asker.is_misconfigured();
  }));
  EXPECT_THAT(askers.back().answer.error, HasSubstr("ACL SETUSER"));
}

// ---- TLS

class TlsLinkTest : public LinkTest {
 protected:
  TlsLinkTest() {
    net::add_extension(server_id.certificate.get(), NID_subject_alt_name, "IP:127.0.0.1");
    X509_sign(server_id.certificate.get(), ca.key.get(), EVP_sha256());
  }

  RedisServer& serve(std::vector<std::string> more = {}) {
    port = free_port();
    std::vector<std::string> words{
        "--tls-port",         std::to_string(port),
        "--tls-cert-file",    folder.write("server.pem", server_id.certificate),
        "--tls-key-file",     folder.write("server.key", server_id.key),
        "--tls-ca-cert-file", folder.write("ca.pem", ca.certificate)};
    words.insert(words.end(), more.begin(), more.end());
    return server.emplace(words, std::uint16_t{0});
  }
  void open_with(const net::TlsFiles& files, const std::string& host = "127.0.0.1") {
    auto context = net::load_client_tls(files);
    ASSERT_TRUE(context);
    options.address = {.host = host, .port = port, .tls = *context};
    open();
  }
  testing::AssertionResult complains(std::string_view text) {
    return runs_until([&] {
      ask();
      return is_answered(askers.back()) &&
             askers.back().answer.error.find(text) != std::string::npos;
    });
  }

  net::Identity ca = net::make_identity("ca");
  net::Identity server_id = net::make_identity("server", &ca);
  net::Identity client_id = net::make_identity("client", &ca);
  net::PemFolder folder;
  std::uint16_t port = 0;
  std::optional<RedisServer> server;
};

TEST_F(TlsLinkTest, AsksAServerItTrusts) {
  serve({"--tls-auth-clients", "no"});
  open_with({.ca = folder.path("ca.pem")});
  ASSERT_TRUE(is_decided_again());
  for (int i = 0; i < 3000; ++i) ask("key " + std::to_string(i));
  ASSERT_TRUE(is_answered(askers.back()));
  EXPECT_TRUE(askers.back().is_decided());
}

TEST_F(TlsLinkTest, ShowsItsCertificateToAServerThatAsks) {
  serve();
  open_with({.cert = folder.write("client.pem", client_id.certificate),
             .key = folder.write("client.key", client_id.key),
             .ca = folder.path("ca.pem")});
  ASSERT_TRUE(is_decided_again());
}

TEST_F(TlsLinkTest, DoesNotTrustACertificateOfSomebodyElse) {
  serve({"--tls-auth-clients", "no"});
  open_with({.ca = folder.write("other.pem", net::make_identity("other").certificate)});
  EXPECT_TRUE(complains("its certificate is not trusted"));
  // Somebody has to put it right: it is no outage.
  ask("key");
  ASSERT_TRUE(is_answered(askers.back()));
  EXPECT_TRUE(askers.back().is_misconfigured());
}

TEST_F(TlsLinkTest, DoesNotTrustACertificateForAnotherHost) {
  serve({"--tls-auth-clients", "no"});
  open_with({.ca = folder.path("ca.pem")}, "localhost");
  EXPECT_TRUE(complains("its certificate is not trusted: hostname mismatch"));
}

TEST_F(TlsLinkTest, ReportsAServerWithoutTls) {
  BoundSocket plain;
  plain.listen();
  port = plain.port;
  open_with({});
  FakeAsker& asker = ask();
  link->flush();
  const net::Descriptor peer = plain.accept();
  ASSERT_EQ(write(peer.fd(), "-ERR Protocol error\r\n", 21), 21);
  ASSERT_TRUE(is_answered(asker));
  EXPECT_THAT(asker.answer.error, HasSubstr("TLS fails"));
}

// ---- Trouble

TEST_F(LinkTest, AKilledServerIsFoundAgainWhenItIsBack) {
  RedisServer server;
  open(server.port());
  ASSERT_TRUE(is_decided_again());
  server.kill();
  ASSERT_TRUE(runs_until([&] {
    FakeAsker& asker = ask();
    return is_answered(asker) && asker.is_unavailable() &&
           asker.answer.error.find("Connection refused") != std::string::npos;
  }));
  server.start();
  ASSERT_TRUE(is_decided_again());
  EXPECT_GE(counts.connects.get(), 2u);
}

TEST_F(LinkTest, AServerThatHangsIsNotAskedUntilItGoesOn) {
  RedisServer server;
  options.machine.timeout = milliseconds{50};
  options.machine.connect_timeout = milliseconds{200};
  options.machine.longest_silence = milliseconds{300};
  open(server.port());
  ASSERT_TRUE(is_decided_again());
  server.hang();
  // All at once, so that they time out together, before the silence is too long.
  for (std::uint32_t i = 0; i < options.machine.breaker_after; ++i) ask();
  ASSERT_TRUE(runs_until([&] { return link->machine().breaker_is_open(); }));
  EXPECT_GE(counts.timeouts.get(), options.machine.breaker_after);
  // Answered before anything else is done.
  EXPECT_TRUE(ask().is_unavailable());
  // For so long that it is connected anew, in vain.
  const std::string hopeless = "connected, but it does not answer";
  ASSERT_TRUE(runs_until([&] { return lines.back().find(hopeless) != std::string::npos; }));
  server.go_on();
  ASSERT_TRUE(is_decided_again());
  EXPECT_FALSE(link->machine().breaker_is_open());
}

TEST_F(LinkTest, AServerThatHangsShortlyKeepsItsConnection) {
  RedisServer server;
  options.machine.timeout = milliseconds{50};
  options.machine.longest_silence = kPatience;
  open(server.port());
  ASSERT_TRUE(is_decided_again());
  const std::uint64_t connects = counts.connects.get();
  server.hang();
  ASSERT_TRUE(runs_until([&] {
    FakeAsker& asker = ask();
    return is_answered(asker) && link->machine().breaker_is_open();
  }));
  server.go_on();
  ASSERT_TRUE(is_decided_again());
  EXPECT_EQ(counts.connects.get(), connects);
}

TEST_F(LinkTest, NobodyListening) {
  open(free_port());
  FakeAsker& asker = ask();
  ASSERT_TRUE(is_answered(asker));
  EXPECT_TRUE(asker.is_unavailable());
  EXPECT_THAT(asker.answer.error, HasSubstr("Connection refused"));
}

TEST_F(LinkTest, AServerThatSaysNothing) {
  BoundSocket silent;
  silent.listen();
  options.machine.connect_timeout = milliseconds{100};
  open(silent.port);
  FakeAsker& asker = ask();
  ASSERT_TRUE(is_answered(asker));
  EXPECT_TRUE(asker.is_unavailable());
  EXPECT_THAT(asker.answer.error, HasSubstr("connected, but it does not answer"));
}

TEST_F(LinkTest, AServerThatSaysNonsense) {
  BoundSocket odd;
  odd.listen();
  open(odd.port);
  FakeAsker& asker = ask();
  link->flush();
  const net::Descriptor peer = odd.accept();
  ASSERT_EQ(write(peer.fd(), "220 mail\r\n", 10), 10);
  ASSERT_TRUE(is_answered(asker));
  EXPECT_TRUE(asker.is_misconfigured());
}

TEST_F(LinkTest, WhatIsOpenWhenItEndsIsUnavailable) {
  BoundSocket silent;
  silent.listen();
  open(silent.port);
  FakeAsker& asker = ask();
  asker.then = [&] { link->flush(); };
  link.reset();
  EXPECT_TRUE(asker.is_unavailable());
}

// ---- Refusals

TEST_F(LinkTest, WhoWasJustRefusedIsRefusedWithoutAsking) {
  RedisServer server;
  open(server.port());
  ASSERT_TRUE(is_decided_again());
  ASSERT_TRUE(runs_until([&] {
    FakeAsker& first = ask("hot", 20);
    EXPECT_TRUE(is_answered(first));
    FakeAsker& second = ask("hot", 20);
    return second.is_decided() && !second.answer.verdict.decision;
  }));
  EXPECT_GE(counts.refused_by_cache.get(), 1u);
  FakeAsker& cheaper = ask("hot", 5);
  EXPECT_FALSE(cheaper.is_answered());
  ASSERT_TRUE(is_answered(cheaper));
  EXPECT_TRUE(cheaper.answer.verdict.decision);
}

TEST_F(LinkTest, AResetIsSeenAtOnce) {
  RedisServer server;
  open(server.port());
  ASSERT_TRUE(is_decided_again());
  ASSERT_TRUE(is_answered(ask("hot", 20)));
  FakeAsker& reset = askers.emplace_back("hot");
  reset.question.verb = SharedVerb::reset;
  link->ask(reset.question, reset);
  FakeAsker& after = ask("hot", 20);
  EXPECT_FALSE(after.is_answered());
  ASSERT_TRUE(is_answered(after));
}

}  // namespace
}  // namespace weir::store::redis
