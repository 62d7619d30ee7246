// TLS around a protocol, with a client in memory: the test carries every byte of both sides.

#include "net/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "certificates.h"
#include "line_protocol.h"
#include "tls_client.h"

namespace weir::net {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Calls a protocol like a connection does: with the input that is not consumed, until it makes no
// progress.
class TestConnection {
 public:
  explicit TestConnection(Protocol& protocol) : protocol_(protocol) {}

  // Passes input on and returns the responses.
  std::string shows(std::string_view text) {
    kept_ += text;
    std::string answers;
    while (!kept_.empty() && !protocol_.ends()) {
      std::string out;
      const std::size_t used = protocol_.on_input(kept_, out);
      EXPECT_LE(used, kept_.size());
      kept_.erase(0, used);
      most_at_once = std::max(most_at_once, out.size());
      answers += out;
      if (used == 0 && out.empty()) break;
    }
    if (protocol_.ends()) protocol_.on_close(answers);
    return answers;
  }

  std::size_t kept() const { return kept_.size(); }
  std::size_t most_at_once = 0;

 private:
  Protocol& protocol_;
  std::string kept_;
};

class TlsProtocolTest : public testing::Test {
 protected:
  TlsProtocolTest() { open(); }

  void open(const std::string& ca_file = {}) {
    context = *load_tls({.cert = folder.write("cert.pem", server.certificate),
                         .key = folder.write("key.pem", server.key),
                         .ca = ca_file});
    fresh();
  }
  // A new connection.
  void fresh() {
    tls = std::make_unique<TlsProtocol>(context, options, Peer{.address = "10.1.2.3"},
                                        std::make_unique<LineProtocol>(counters), kMostInput);
    line.emplace(*tls);
    client.emplace(client_context.get());
  }

  // Carries bytes between both sides, in pieces of that size, until both are silent.
  void talk(std::size_t piece = std::string::npos) {
    for (std::string said = client->said(); !said.empty(); said = client->said()) {
      for (std::size_t i = 0; i < said.size(); i += std::min(piece, said.size())) {
        client->hears(line->shows(said.substr(i, piece)));
      }
    }
  }
  void shake_hands(std::size_t piece = std::string::npos) {
    client->shake_hands();
    talk(piece);
  }
  std::string answer_to(std::string_view text, std::size_t piece = std::string::npos) {
    client->received.clear();
    client->say(text);
    talk(piece);
    return client->received;
  }

  static constexpr std::size_t kMostInput = 20'000;

  Identity ca = make_identity("ca");
  Identity server = make_identity("server", &ca);
  PemFolder folder;
  std::vector<std::string> refusals;
  TlsOptions options{.alpn = "lines/1",
                     .not_tls = "speak TLS\n",
                     .refused = [this](const Peer& peer, std::string_view why) {
                       refusals.push_back(peer.address + ": " + std::string(why));
                     }};
  TlsContext context;
  ClientContext client_context{SSL_CTX_new(TLS_client_method()), &SSL_CTX_free};
  Counters counters;
  std::unique_ptr<TlsProtocol> tls;
  std::optional<TestConnection> line;
  std::optional<TlsClient> client;
};

// ---- Messages

TEST_F(TlsProtocolTest, PassesPlainTextToTheInnerProtocol) {
  shake_hands();
  EXPECT_TRUE(client->is_let_in()) << client->error;
  EXPECT_EQ(answer_to("hello\n"), "hello\n");
  EXPECT_EQ(answer_to("again\nand again\n"), "again\nand again\n");
  EXPECT_FALSE(tls->ends());
  EXPECT_FALSE(tls->in_message());
  EXPECT_EQ(line->kept(), 0u);
}

TEST_F(TlsProtocolTest, SpeaksTls12AndTls13) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    SSL_CTX_set_min_proto_version(client_context.get(), version);
    SSL_CTX_set_max_proto_version(client_context.get(), version);
    fresh();
    shake_hands();
    EXPECT_EQ(SSL_version(client->ssl()), version);
    EXPECT_EQ(answer_to("hello\n"), "hello\n");
  }
}

TEST_F(TlsProtocolTest, AnswersInputThatArrivesOneByteAtATime) {
  shake_hands(1);
  EXPECT_EQ(answer_to("byte by byte\n", 1), "byte by byte\n");
}

// Records need not begin or end with messages.
TEST_F(TlsProtocolTest, AnswersRecordsThatAreCutAnywhere) {
  for (std::size_t piece = 2; piece < 200; piece += 7) {
    fresh();
    shake_hands(piece);
    std::string lines;
    for (int i = 0; i < 20; ++i) {
      const std::string text = "line " + std::to_string(i) + "\n";
      lines += text;
      client->say(text.substr(0, 3));
      client->say(text.substr(3));
    }
    talk(piece);
    EXPECT_EQ(client->received, lines) << piece;
  }
}

TEST_F(TlsProtocolTest, AnswersAMessageOfManyRecords) {
  shake_hands();
  const std::string text(kMostInput - 1, 'x');
  EXPECT_EQ(answer_to(text + "\n"), text + "\n");
  EXPECT_EQ(answer_to("more\n"), "more\n");
}

TEST_F(TlsProtocolTest, EndsOnAMessageOverTheMaximumSize) {
  shake_hands();
  EXPECT_EQ(answer_to(std::string(kMostInput + 1, 'x') + "\n"), "");
  EXPECT_TRUE(tls->ends());
  EXPECT_TRUE(client->ended);
}

// A short request with a long response, a thousand times in one record. The protocol stops at the
// high-water mark and continues when it is called again, although no more input has come.
TEST_F(TlsProtocolTest, StopsAtTheOutputHighWaterMark) {
  shake_hands();
  std::string questions;
  std::string answers;
  for (int i = 0; i < 1'000; ++i) {
    questions += "1000\n";
    answers += LineProtocol::answer_to("1000");
  }
  EXPECT_EQ(answer_to(questions), answers);
  EXPECT_LT(line->most_at_once, 2 * Protocol::kOutputHighWater);
  EXPECT_EQ(counters.unsent, 0u);
  EXPECT_EQ(line->kept(), 0u);
  EXPECT_FALSE(tls->in_message());
}

// As before, with a record for each request.
TEST_F(TlsProtocolTest, StopsAtTheOutputHighWaterMarkBetweenRecords) {
  shake_hands();
  std::string answers;
  for (int i = 0; i < 1'000; ++i) {
    client->say("1000\n");
    answers += LineProtocol::answer_to("1000");
  }
  talk();
  EXPECT_EQ(client->received, answers);
  EXPECT_LT(line->most_at_once, 2 * Protocol::kOutputHighWater);
}

TEST_F(TlsProtocolTest, SendsResponsesLongerThanARecord) {
  shake_hands();
  EXPECT_EQ(answer_to("300000\n"), LineProtocol::answer_to("300000"));
}

// ---- Timeouts

TEST_F(TlsProtocolTest, IsInAMessageUntilTheHandshakeIsComplete) {
  EXPECT_TRUE(tls->in_message());
  client->shake_hands();
  line->shows(client->said().substr(0, 100));
  EXPECT_EQ(line->kept(), 100u) << "an incomplete record is an incomplete message";
  EXPECT_TRUE(tls->in_message());
  std::string out;
  tls->on_timeout(out);
  EXPECT_EQ(out, "");
  EXPECT_TRUE(tls->ends());
  EXPECT_THAT(refusals, testing::ElementsAre("10.1.2.3: it did not finish the handshake in time"));
}

TEST_F(TlsProtocolTest, IsInAMessageWhileTheInnerProtocolIs) {
  shake_hands();
  EXPECT_FALSE(tls->in_message());
  EXPECT_EQ(answer_to("hel"), "");
  EXPECT_EQ(line->kept(), 0u);
  EXPECT_TRUE(tls->in_message());
  EXPECT_EQ(answer_to("lo\n"), "hello\n");
  EXPECT_FALSE(tls->in_message());
}

TEST_F(TlsProtocolTest, AnswersThatAMessageTimedOut) {
  shake_hands();
  answer_to("hel");
  std::string out;
  tls->on_timeout(out);
  tls->on_close(out);
  client->hears(out);
  EXPECT_EQ(client->received, "too slow\n");
  EXPECT_TRUE(client->ended);
}

// ---- Memory

TEST_F(TlsProtocolTest, CountsTheSessionAsMemory) {
  const std::size_t at_first = tls->memory();
  EXPECT_GT(at_first, 4u << 10);
  client->shake_hands();
  client->hears(line->shows(client->said()));  // the rest of the handshake is still to come
  EXPECT_GT(tls->memory(), 32u << 10);
  talk();
  EXPECT_TRUE(client->is_let_in());
  EXPECT_LT(tls->memory(), 20u << 10);
}

TEST_F(TlsProtocolTest, CountsDecryptedInputAsMemory) {
  shake_hands();
  const std::size_t before = tls->memory();
  answer_to(std::string(10'000, 'x'));
  EXPECT_GT(tls->memory(), before + 9'000);
}

// Holds much memory, and sends a message when it is shed.
class HoldingLineProtocol final : public LineProtocol {
 public:
  using LineProtocol::LineProtocol;
  std::size_t memory() const override { return 1'000'000; }
  void on_shed(std::string& out) override { out += "too large\n"; }
};

TEST_F(TlsProtocolTest, TellsAShedConnectionWhyInsideTls) {
  tls = std::make_unique<TlsProtocol>(context, options, Peer{.address = "10.1.2.3"},
                                      std::make_unique<HoldingLineProtocol>(counters), kMostInput);
  line.emplace(*tls);
  EXPECT_GT(tls->memory(), 1'000'000u);
  std::string out;
  tls->on_shed(out);
  EXPECT_EQ(out, "") << "nothing can be encrypted before the handshake";
  shake_hands();
  tls->on_shed(out);
  client->hears(out);
  EXPECT_EQ(client->received, "too large\n");
}

TEST_F(TlsProtocolTest, IsInNoMessageAtShutdownBeforeTheHandshake) {
  tls->on_shutdown();
  EXPECT_EQ(counters.shutdowns, 1u);
  EXPECT_FALSE(tls->in_message());
}

// ---- Closing

TEST_F(TlsProtocolTest, EndsWhenTheInnerProtocolEnds) {
  shake_hands();
  EXPECT_EQ(answer_to("hello\nquit\nhello\n"), "hello\nbye\n");
  EXPECT_TRUE(tls->ends());
  EXPECT_TRUE(client->ended) << "close_notify was sent";
}

TEST_F(TlsProtocolTest, AnswersMessagesBeforeCloseNotify) {
  shake_hands();
  client->say("1000\n");
  client->say("hello\n");
  client->say_no_more();
  talk();
  EXPECT_EQ(client->received, LineProtocol::answer_to("1000") + "hello\n");
  EXPECT_TRUE(tls->ends());
  EXPECT_TRUE(client->ended);
  EXPECT_TRUE(refusals.empty());
}

// Also if the client must read responses first.
TEST_F(TlsProtocolTest, AnswersManyMessagesBeforeCloseNotify) {
  shake_hands();
  std::string answers;
  for (int i = 0; i < 500; ++i) {
    client->say("1000\n");
    answers += LineProtocol::answer_to("1000");
  }
  client->say_no_more();
  talk();
  EXPECT_EQ(client->received, answers);
  EXPECT_TRUE(client->ended);
}

TEST_F(TlsProtocolTest, SendsCloseNotifyOnlyAfterTheHandshake) {
  std::string out;
  tls->on_close(out);
  EXPECT_EQ(out, "");
  client->shake_hands();
  line->shows(client->said());
  tls->on_close(out);
  EXPECT_EQ(out, "") << "the peer is not authenticated yet";
}

// ---- Refused peers

TEST_F(TlsProtocolTest, AnswersPlainTextWithItsMessage) {
  for (const std::string_view text : {"*1\r\n$4\r\nPING\r\n", "GET / HTTP/1.1\r\n\r\n", "x", "\n",
                                      "\x80\x2e\x01", "\x15\x03\x01\x00\x02\x02\x28"}) {
    fresh();
    refusals.clear();
    EXPECT_EQ(line->shows(text), "speak TLS\n");
    EXPECT_TRUE(tls->ends());
    EXPECT_EQ(line->kept(), 0u);
    EXPECT_THAT(refusals, testing::ElementsAre("10.1.2.3: it does not speak TLS"));
  }
  EXPECT_EQ(counters.bytes, 0u);
}

TEST_F(TlsProtocolTest, EndsOnAMalformedHandshake) {
  for (const std::string& text :
       {std::string("\x16\x03\x01\x00\x04nope", 9), std::string("\x16GET / HTTP/1.1\r\n\r\n"),
        std::string("\x16\x03\x01\xff\xff", 5), std::string("\x16\x03\x03\x00\x00", 5) + "\x16"}) {
    fresh();
    refusals.clear();
    line->shows(text);
    EXPECT_TRUE(tls->ends() || line->kept() > 0) << text;
    EXPECT_LE(refusals.size(), 1u);
  }
  EXPECT_EQ(counters.bytes, 0u);
}

TEST_F(TlsProtocolTest, EndsOnARecordThatWasTamperedWith) {
  shake_hands();
  client->say("hello\n");
  std::string said = client->said();
  said.back() = static_cast<char>(said.back() ^ 1);
  client->hears(line->shows(said));
  EXPECT_TRUE(tls->ends());
  EXPECT_EQ(client->received, "");
  EXPECT_EQ(counters.bytes, 0u);
  EXPECT_EQ(refusals.size(), 1u);
}

// A replay attack does not repeat a decision.
TEST_F(TlsProtocolTest, EndsOnAReplayedRecord) {
  shake_hands();
  client->say("hello\n");
  const std::string said = client->said();
  client->hears(line->shows(said));
  EXPECT_EQ(client->received, "hello\n");
  client->hears(line->shows(said));
  EXPECT_EQ(client->received, "hello\n");
  EXPECT_TRUE(tls->ends());
}

TEST_F(TlsProtocolTest, RefusesOldVersions) {
  SSL_CTX_set_security_level(client_context.get(), 0);
  SSL_CTX_set_min_proto_version(client_context.get(), TLS1_VERSION);
  SSL_CTX_set_max_proto_version(client_context.get(), TLS1_1_VERSION);
  fresh();
  shake_hands();
  EXPECT_FALSE(client->is_let_in());
  EXPECT_TRUE(tls->ends());
  EXPECT_THAT(client->error, HasSubstr("protocol version"));
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_THAT(refusals[0], HasSubstr("unsupported protocol"));
}

TEST_F(TlsProtocolTest, RefusesCiphersWithoutForwardSecrecy) {
  SSL_CTX_set_max_proto_version(client_context.get(), TLS1_2_VERSION);
  SSL_CTX_set_cipher_list(client_context.get(), "AES128-GCM-SHA256:AES256-SHA");
  fresh();
  shake_hands();
  EXPECT_FALSE(client->is_let_in());
  EXPECT_TRUE(tls->ends());
}

TEST_F(TlsProtocolTest, DoesNotRenegotiate) {
  SSL_CTX_set_max_proto_version(client_context.get(), TLS1_2_VERSION);
  fresh();
  shake_hands();
  SSL_renegotiate(client->ssl());
  SSL_do_handshake(client->ssl());
  talk();
  EXPECT_NE(client->error + (tls->ends() ? "ended" : ""), "");
}

// ---- ALPN

TEST_F(TlsProtocolTest, ChoosesItsProtocolByAlpn) {
  const auto offer = [&](const std::string& names) {
    fresh();
    SSL_set_alpn_protos(client->ssl(), reinterpret_cast<const unsigned char*>(names.data()),
                        static_cast<unsigned>(names.size()));
    shake_hands();
    const unsigned char* chosen = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(client->ssl(), &chosen, &size);
    return client->is_let_in() ? std::string(chosen, chosen + size) : "refused";
  };
  EXPECT_EQ(offer("\x02h2\x07lines/1"), "lines/1");
  EXPECT_EQ(offer("\x02h2"), "refused");
  EXPECT_EQ(offer(""), "");
  options.alpn.clear();
  EXPECT_EQ(offer("\x02h2"), "");
}

// ---- Client certificates (mutual TLS)

class MutualTlsTest : public TlsProtocolTest {
 protected:
  MutualTlsTest() { open(folder.write("ca.pem", ca.certificate)); }

  // True if a client with that certificate is accepted.
  bool lets_in(const Identity& identity) {
    SSL_CTX_use_certificate(client_context.get(), identity.certificate.get());
    SSL_CTX_use_PrivateKey(client_context.get(), identity.key.get());
    fresh();
    refusals.clear();
    shake_hands();
    return !tls->ends() && answer_to("hello\n") == "hello\n";
  }
};

TEST_F(MutualTlsTest, AcceptsAClientCertificateSignedByTheCa) {
  EXPECT_TRUE(lets_in(make_identity("client", &ca)));
  EXPECT_TRUE(refusals.empty());
}

TEST_F(MutualTlsTest, RefusesAClientWithoutCertificate) {
  shake_hands();
  EXPECT_TRUE(tls->ends());
  EXPECT_EQ(counters.bytes, 0u);
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_THAT(refusals[0], HasSubstr("peer did not return a certificate"));
  EXPECT_THAT(client->error, HasSubstr("certificate required"));
}

TEST_F(MutualTlsTest, RefusesACertificateOfAnotherCa) {
  const Identity stranger = make_identity("ca");  // of the same name
  EXPECT_FALSE(lets_in(make_identity("client", &stranger)));
  EXPECT_FALSE(lets_in(make_identity("client")));
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_THAT(refusals[0], HasSubstr("certificate verify failed: "));
}

TEST_F(MutualTlsTest, RefusesAnExpiredCertificate) {
  EXPECT_FALSE(lets_in(make_identity("client", &ca, -60)));
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_THAT(refusals[0], HasSubstr("certificate has expired"));
  EXPECT_EQ(counters.bytes, 0u);
}

// ---- The listener

TEST(TlsListener, TakesAWholeRecordAndRefusesWithAnAlert) {
  const Identity self = make_identity("server");
  const PemFolder folder;
  const CurrentTls current(*load_tls({.cert = folder.write("cert.pem", self.certificate),
                                      .key = folder.write("key.pem", self.key)}));
  Counters counters;
  ListenerOptions plain = line_listener(counters);
  plain.max_input = 100;
  const ListenerOptions options = with_tls(plain, current, {});
  EXPECT_GT(options.max_input, 16u << 10);
  EXPECT_THAT(options.over_limit_reply, StartsWith("\x15\x03"));
  EXPECT_TRUE(options.make_protocol({})->in_message());
}

}  // namespace
}  // namespace weir::net
