// A link and real servers: redis-server, and sockets that do not speak its protocol.

#include "store/redis/link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <optional>
#include <thread>

#include "../../net/certificates.h"
#include "fake_codec.h"
#include "server.h"

namespace weir::store::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Contains;
using testing::HasSubstr;

// Much longer than any successful operation takes.
constexpr seconds kLongTimeout{60};

class RedisLinkTest : public testing::Test {
 protected:
  RedisLinkTest() {
    options.make_codec = [] { return std::make_unique<FakeCodec>(); };
    options.log = [this](LinkLogLevel, std::string_view line) { lines.emplace_back(line); };
    // Calls must not time out on a busy machine.
    options.connection.timeout = kLongTimeout;
    options.connection.connect_timeout = kLongTimeout;
    options.connection.max_back_off = milliseconds{50};
  }

  RedisLink& open(std::uint16_t port) {
    options.address.host = "127.0.0.1";
    options.address.port = port;
    return open();
  }
  RedisLink& open() {
    options.connection.server = options.address.shown();
    link.emplace(options, shared_counts, 1);
    return *link;
  }

  template <typename Condition>
  testing::AssertionResult runs_until(Condition holds) {
    const auto end = std::chrono::steady_clock::now() + kLongTimeout;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > end) {
        return testing::AssertionFailure() << testing::PrintToString(lines);
      }
      link->wait(milliseconds{20});
    }
    return testing::AssertionSuccess();
  }
  testing::AssertionResult becomes_ready() {
    return runs_until([&] { return link->fsm().is_ready(); });
  }
  FakeRequester& ask(std::string key = "key", Permits cost = 1) {
    FakeRequester& requester = requesters.emplace_back(std::move(key), cost);
    link->ask(requester.request, requester);
    return requester;
  }
  testing::AssertionResult is_answered(FakeRequester& requester) {
    return runs_until([&] { return requester.is_answered(); });
  }
  // Sends requests until one is decided.
  testing::AssertionResult is_decided_again() {
    return runs_until([&] {
      FakeRequester& requester = ask();
      return is_answered(requester) && requester.is_decided();
    });
  }

  LinkOptions options;
  std::shared_ptr<LinkCounts> shared_counts = std::make_shared<LinkCounts>();
  LinkCounts& counts = *shared_counts;
  std::vector<std::string> lines;
  std::deque<FakeRequester> requesters;
  std::optional<RedisLink> link;
};

TEST_F(RedisLinkTest, GetsAResponseOfAServer) {
  RedisServer server;
  open(server.port());
  ASSERT_TRUE(becomes_ready());
  FakeRequester& requester = ask();
  link->flush();
  ASSERT_TRUE(is_answered(requester));
  EXPECT_TRUE(requester.is_decided()) << requester.answer.error;
  EXPECT_TRUE(requester.answer.verdict.decision);
}

TEST_F(RedisLinkTest, RequestsThatAreFlushedTogetherAreOneRoundTrip) {
  RedisServer server;
  open(server.port());
  ASSERT_TRUE(is_decided_again());
  const std::uint64_t flushes = counts.flushes.get();
  for (int i = 0; i < 100; ++i) ask("key " + std::to_string(i));
  link->flush();
  EXPECT_EQ(counts.flushes.get(), flushes + 1);
  ASSERT_TRUE(is_answered(requesters.back()));
  for (auto requester = requesters.end() - 100; requester != requesters.end(); ++requester) {
    EXPECT_TRUE(requester->is_decided());
  }
  EXPECT_GE(counts.flushed_calls.get(), 100u);
}

TEST_F(RedisLinkTest, ACodecMaySendSeveralCommands) {
  RedisServer server;
  open(server.port());
  ASSERT_TRUE(becomes_ready());
  FakeRequester& requester = requesters.emplace_back();
  requester.request.verb = StoreVerb::peek;
  link->ask(requester.request, requester);
  ASSERT_TRUE(is_answered(requester));
  EXPECT_TRUE(requester.is_decided());
}

TEST_F(RedisLinkTest, ARequestMayBeStartedFromWithinACallback) {
  RedisServer server;
  open(server.port());
  ASSERT_TRUE(becomes_ready());
  FakeRequester& second = requesters.emplace_back("second");
  FakeRequester& first = requesters.emplace_back("first");
  first.then = [&] {
    link->ask(second.request, second);
    link->flush();
    link->run_ready();
  };
  link->ask(first.request, first);
  ASSERT_TRUE(is_answered(second));
  EXPECT_TRUE(second.is_decided());
}

// If the link's thread does not run for a while, the back-off ends before the thread closes the old
// connection.
TEST_F(RedisLinkTest, ReconnectsIfTheBackOffEndsBeforeTheOldConnectionIsClosed) {
  BoundSocket server;
  server.listen();
  options.connection.min_back_off = Nanos{0};
  open(server.port);
  const auto is_asked = [&] {
    pollfd asked{.fd = server.socket.fd(), .events = POLLIN, .revents = 0};
    return poll(&asked, 1, 0) == 1;
  };
  ASSERT_TRUE(runs_until(is_asked));
  const net::FileDescriptor first = server.accept();
  constexpr std::string_view refusal = "-NOAUTH Authentication required.\r\n";
  ASSERT_EQ(write(first.fd(), refusal.data(), refusal.size()), std::ssize(refusal));
  EXPECT_TRUE(runs_until(is_asked));
}

TEST_F(RedisLinkTest, DescriptorBecomesReadableInAnotherPoll) {
  RedisServer server;
  open(server.port());
  ASSERT_TRUE(becomes_ready());
  FakeRequester& requester = ask();
  link->flush();
  pollfd waits{.fd = link->descriptor(), .events = POLLIN, .revents = 0};
  while (!requester.is_answered()) {
    ASSERT_EQ(poll(&waits, 1, 60'000), 1);
    link->run_ready();
  }
  EXPECT_TRUE(requester.is_decided()) << requester.answer.error;
}

TEST_F(RedisLinkTest, SendsScriptsAgainAfterARestart) {
  RedisServer server;
  open(server.port());
  ASSERT_TRUE(is_decided_again());
  server.kill();
  server.start();
  ASSERT_TRUE(is_decided_again());
}

TEST_F(RedisLinkTest, ErrorsNameTheServerAndItsText) {
  RedisServer server;
  open(server.port());
  ASSERT_TRUE(becomes_ready());
  for (const std::string error : {"OOM too much", "WEIRFORMAT 9", "ERR no"}) {
    FakeRequester& requester = requesters.emplace_back();
    requester.request.holder = error;
    link->ask(requester.request, requester);
    ASSERT_TRUE(is_answered(requester));
    EXPECT_EQ(requester.is_unavailable(), error.starts_with("OOM")) << error;
    EXPECT_EQ(requester.is_misconfigured(), !error.starts_with("OOM")) << error;
    EXPECT_THAT(requester.answer.error,
                HasSubstr("redis://127.0.0.1:" + std::to_string(server.port())));
    EXPECT_THAT(requester.answer.error, HasSubstr(error));
  }
}

// ---- Addresses and logins

TEST_F(RedisLinkTest, ReachesAUnixSocket) {
  RedisServer server({}, 0);
  options.address.path = server.socket_path();
  open();
  ASSERT_TRUE(is_decided_again());
}

TEST_F(RedisLinkTest, ResolvesAHostName) {
  RedisServer server;
  options.address = {.host = "localhost", .port = server.port()};
  open();
  ASSERT_TRUE(is_decided_again());
}

TEST_F(RedisLinkTest, ReportsAHostNameThatCannotBeResolved) {
  options.address = {.host = "no-such-host.invalid", .port = 6379};
  open();
  FakeRequester& requester = ask();
  ASSERT_TRUE(is_answered(requester));
  EXPECT_TRUE(requester.is_unavailable());
  EXPECT_THAT(requester.answer.error, HasSubstr("cannot find no-such-host.invalid"));
}

TEST_F(RedisLinkTest, CanBeDestroyedWhileAHostNameIsResolved) {
  options.address = {.host = "no-such-host.invalid", .port = 6379};
  open();
  FakeRequester& requester = ask();
  link.reset();
  EXPECT_TRUE(requester.is_unavailable());
}

TEST_F(RedisLinkTest, LogsInAsAUserAndSelectsItsDatabase) {
  RedisServer server({"--user", "limiter", "on", ">secret", "~*", "+@all"});
  options.connection.login = {.user = "limiter", .password = "secret", .database = 5};
  open(server.port());
  ASSERT_TRUE(is_decided_again());
}

TEST_F(RedisLinkTest, AWrongPasswordIsAMisconfiguration) {
  RedisServer server({"--requirepass", "secret"});
  options.connection.login.password = "wrong";
  open(server.port());
  ASSERT_TRUE(runs_until([&] {
    FakeRequester& requester = ask();
    return is_answered(requester) && requester.is_misconfigured();
  }));
  EXPECT_THAT(lines, Contains(HasSubstr("WRONGPASS")));
}

TEST_F(RedisLinkTest, AUserWithoutTheCommandsIsAMisconfiguration) {
  RedisServer server({"--user", "limiter", "on", ">secret", "~*", "+get"});
  options.connection.login = {.user = "limiter", .password = "secret"};
  open(server.port());
  ASSERT_TRUE(runs_until([&] {
    FakeRequester& requester = ask();
    return is_answered(requester) && requester.is_misconfigured();
  }));
  EXPECT_THAT(requesters.back().answer.error, HasSubstr("ACL SETUSER"));
}

// ---- TLS

class RedisLinkTlsTest : public RedisLinkTest {
 protected:
  RedisLinkTlsTest() {
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
  void open_with(const net::PemFiles& files, const std::string& host = "127.0.0.1") {
    auto context = net::load_client_tls(files);
    ASSERT_TRUE(context);
    options.address = {.host = host, .port = port, .tls = *context};
    open();
  }
  testing::AssertionResult complains(std::string_view text) {
    return runs_until([&] {
      ask();
      return is_answered(requesters.back()) &&
             requesters.back().answer.error.find(text) != std::string::npos;
    });
  }

  net::Identity ca = net::make_identity("ca");
  net::Identity server_id = net::make_identity("server", &ca);
  net::Identity client_id = net::make_identity("client", &ca);
  net::PemFolder folder;
  std::uint16_t port = 0;
  std::optional<RedisServer> server;
};

TEST_F(RedisLinkTlsTest, ConnectsToAServerItTrusts) {
  serve({"--tls-auth-clients", "no"});
  open_with({.ca = folder.path("ca.pem")});
  ASSERT_TRUE(is_decided_again());
  for (int i = 0; i < 3000; ++i) ask("key " + std::to_string(i));
  ASSERT_TRUE(is_answered(requesters.back()));
  EXPECT_TRUE(requesters.back().is_decided());
}

TEST_F(RedisLinkTlsTest, SendsItsCertificateIfTheServerRequiresOne) {
  serve();
  open_with({.cert = folder.write("client.pem", client_id.certificate),
             .key = folder.write("client.key", client_id.key),
             .ca = folder.path("ca.pem")});
  ASSERT_TRUE(is_decided_again());
}

TEST_F(RedisLinkTlsTest, DoesNotTrustACertificateOfAnotherAuthority) {
  serve({"--tls-auth-clients", "no"});
  open_with({.ca = folder.write("other.pem", net::make_identity("other").certificate)});
  EXPECT_TRUE(complains("its certificate is not trusted"));
  // Not an outage: an operator has to fix it.
  ask("key");
  ASSERT_TRUE(is_answered(requesters.back()));
  EXPECT_TRUE(requesters.back().is_misconfigured());
}

TEST_F(RedisLinkTlsTest, DoesNotTrustACertificateForAnotherHost) {
  serve({"--tls-auth-clients", "no"});
  open_with({.ca = folder.path("ca.pem")}, "localhost");
  EXPECT_TRUE(complains("its certificate is not trusted: hostname mismatch"));
}

TEST_F(RedisLinkTlsTest, ReportsAServerWithoutTls) {
  BoundSocket plain;
  plain.listen();
  port = plain.port;
  open_with({});
  FakeRequester& requester = ask();
  link->flush();
  const net::FileDescriptor peer = plain.accept();
  ASSERT_EQ(write(peer.fd(), "-ERR Protocol error\r\n", 21), 21);
  ASSERT_TRUE(is_answered(requester));
  EXPECT_THAT(requester.answer.error, HasSubstr("TLS fails"));
}

// ---- Failures

TEST_F(RedisLinkTest, ReconnectsToAKilledServerAfterItsRestart) {
  RedisServer server;
  open(server.port());
  ASSERT_TRUE(is_decided_again());
  server.kill();
  ASSERT_TRUE(runs_until([&] {
    FakeRequester& requester = ask();
    return is_answered(requester) && requester.is_unavailable() &&
           requester.answer.error.find("Connection refused") != std::string::npos;
  }));
  server.start();
  ASSERT_TRUE(is_decided_again());
  EXPECT_GE(counts.connects.get(), 2u);
}

TEST_F(RedisLinkTest, SendsNoCallsToAHangingServerUntilItAnswers) {
  RedisServer server;
  options.connection.timeout = milliseconds{50};
  options.connection.connect_timeout = milliseconds{200};
  options.connection.max_silence = milliseconds{300};
  open(server.port());
  ASSERT_TRUE(is_decided_again());
  server.hang();
  // All at once, so that they time out together before max_silence.
  for (std::uint32_t i = 0; i < options.connection.breaker_threshold; ++i) ask();
  ASSERT_TRUE(runs_until([&] { return link->fsm().breaker_is_open(); }));
  EXPECT_GE(counts.timeouts.get(), options.connection.breaker_threshold);
  // Fails without waiting.
  EXPECT_TRUE(ask().is_unavailable());
  // The silence ends the connection, and the attempt to reconnect fails.
  const std::string no_answer = "connected, but it does not answer";
  ASSERT_TRUE(runs_until([&] { return lines.back().find(no_answer) != std::string::npos; }));
  server.go_on();
  ASSERT_TRUE(is_decided_again());
  EXPECT_FALSE(link->fsm().breaker_is_open());
}

TEST_F(RedisLinkTest, AShortHangKeepsTheConnection) {
  RedisServer server;
  options.connection.timeout = milliseconds{50};
  options.connection.max_silence = kLongTimeout;
  open(server.port());
  ASSERT_TRUE(is_decided_again());
  const std::uint64_t connects = counts.connects.get();
  server.hang();
  ASSERT_TRUE(runs_until([&] {
    FakeRequester& requester = ask();
    return is_answered(requester) && link->fsm().breaker_is_open();
  }));
  server.go_on();
  ASSERT_TRUE(is_decided_again());
  EXPECT_EQ(counts.connects.get(), connects);
}

TEST_F(RedisLinkTest, AClosedPortIsUnavailable) {
  open(free_port());
  FakeRequester& requester = ask();
  ASSERT_TRUE(is_answered(requester));
  EXPECT_TRUE(requester.is_unavailable());
  EXPECT_THAT(requester.answer.error, HasSubstr("Connection refused"));
}

TEST_F(RedisLinkTest, ASilentServerIsUnavailable) {
  BoundSocket silent;
  silent.listen();
  options.connection.connect_timeout = milliseconds{100};
  open(silent.port);
  FakeRequester& requester = ask();
  ASSERT_TRUE(is_answered(requester));
  EXPECT_TRUE(requester.is_unavailable());
  EXPECT_THAT(requester.answer.error, HasSubstr("connected, but it does not answer"));
}

TEST_F(RedisLinkTest, AServiceWithAnotherProtocolIsAMisconfiguration) {
  BoundSocket odd;
  odd.listen();
  open(odd.port);
  FakeRequester& requester = ask();
  link->flush();
  const net::FileDescriptor peer = odd.accept();
  ASSERT_EQ(write(peer.fd(), "220 mail\r\n", 10), 10);
  ASSERT_TRUE(is_answered(requester));
  EXPECT_TRUE(requester.is_misconfigured());
}

TEST_F(RedisLinkTest, PendingRequestsAreUnavailableWhenItIsDestroyed) {
  BoundSocket silent;
  silent.listen();
  open(silent.port);
  FakeRequester& requester = ask();
  requester.then = [&] { link->flush(); };
  link.reset();
  EXPECT_TRUE(requester.is_unavailable());
}

// ---- The denial cache

TEST_F(RedisLinkTest, AnswersARepeatedTakeFromTheDenialCache) {
  RedisServer server;
  open(server.port());
  ASSERT_TRUE(is_decided_again());
  ASSERT_TRUE(runs_until([&] {
    FakeRequester& first = ask("hot", 20);
    EXPECT_TRUE(is_answered(first));
    FakeRequester& second = ask("hot", 20);
    return second.is_decided() && !second.answer.verdict.decision;
  }));
  EXPECT_GE(counts.refused_by_cache.get(), 1u);
  FakeRequester& cheaper = ask("hot", 5);
  EXPECT_FALSE(cheaper.is_answered());
  ASSERT_TRUE(is_answered(cheaper));
  EXPECT_TRUE(cheaper.answer.verdict.decision);
}

TEST_F(RedisLinkTest, AResetInvalidatesTheDenialCacheAtOnce) {
  RedisServer server;
  open(server.port());
  ASSERT_TRUE(is_decided_again());
  ASSERT_TRUE(is_answered(ask("hot", 20)));
  FakeRequester& reset = requesters.emplace_back("hot");
  reset.request.verb = StoreVerb::reset;
  link->ask(reset.request, reset);
  FakeRequester& after = ask("hot", 20);
  EXPECT_FALSE(after.is_answered());
  ASSERT_TRUE(is_answered(after));
}

}  // namespace
}  // namespace weir::store::redis
