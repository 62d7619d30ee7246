// Timeouts, batches and backpressure of a connection. The test advances the clock: nothing waits
// for real time.

#include "net/protocol_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>

#include <array>

#include "certificates.h"
#include "client.h"
#include "line_protocol.h"
#include "net/byte_channel.h"
#include "net/sockets.h"
#include "net/tls.h"
#include "tls_client.h"

namespace weir::net {
namespace {

class ProtocolConnectionTest : public testing::Test {
 protected:
  ProtocolConnectionTest() {
    options.idle_seconds = 75;
    options.message_seconds = 20;
    options.stall_seconds = 30;
    int error = 0;
    listener = bind_reuseport(address, error);
    EXPECT_EQ(listen(listener.fd(), 10), 0);
  }

  Client connect(int receive_buffer = 0) {
    Client client(address.port(), receive_buffer);
    Peer peer;
    int error = EAGAIN;
    FileDescriptor socket;
    EXPECT_TRUE(eventually([&] {
      socket = accept_next(listener, peer, error);
      return error == 0;
    }));
    open.push_back(std::make_unique<ProtocolConnection>(std::move(socket), options, peer, loop));
    EXPECT_TRUE(open.back()->open());
    return client;
  }

  void work() {
    loop.poller.wait(std::chrono::milliseconds{0});
    loop.batch.serve();
    for (ProtocolConnection* const each : std::exchange(loop.run_queue, {})) each->resume_queued();
    for (const ProtocolConnection* gone : loop.closed) {
      std::erase_if(open, [&](const auto& each) { return each.get() == gone; });
    }
    loop.closed.clear();
  }

  // Runs iterations like a loop's, until the predicate is true.
  template <typename Predicate>
  bool run_until(Predicate is_true) {
    return eventually([&] {
      work();
      return is_true();
    });
  }
  bool answers(Client& client, std::string_view text) {
    const bool arrived = run_until([&] { return client.has_something(); });
    return arrived && client.read(text.size()) == text;
  }
  bool heard_of(std::size_t bytes) {
    return run_until([&] { return counters.bytes == bytes; });
  }
  bool gone() {
    return run_until([&] { return open.empty(); });
  }

  void pass(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      ++loop.now_seconds;
      for (const auto& connection : open) connection->check_timeouts();
      work();
    }
  }

  Counters counters;
  ListenerOptions options = line_listener(counters);
  MemoryBudget budget{1 << 20, 1};
  LoopState loop{.memory = LoopMemory(budget)};
  std::vector<std::unique_ptr<ProtocolConnection>> open;
  SocketAddress address = *resolve("127.0.0.1", 0);
  FileDescriptor listener;
};

TEST_F(ProtocolConnectionTest, TimesOutAMessageFromItsFirstByte) {
  Client client = connect();
  pass(70);
  for (int second = 0; second < 20; ++second) {
    EXPECT_TRUE(client.send("x"));
    EXPECT_TRUE(heard_of(static_cast<std::size_t>(second) + 1));
    if (second < 19) pass(1);
    EXPECT_FALSE(client.has_something()) << second;
  }
  pass(1);
  EXPECT_TRUE(answers(client, "too slow\n"));
  EXPECT_EQ(client.read_all(), "");
}

TEST_F(ProtocolConnectionTest, RestartsTheMessageTimeoutForEachMessage) {
  Client client = connect();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(client.send("hel"));
    EXPECT_TRUE(run_until([&] { return counters.bytes % 6 == 3; }));
    pass(19);
    EXPECT_TRUE(client.send("lo\n"));
    EXPECT_TRUE(answers(client, "hello\n"));
  }
  EXPECT_EQ(open.size(), 1u);
}

// A client that is always in the middle of the next message is not slow: it completes messages.
TEST_F(ProtocolConnectionTest, RestartsTheTimeoutForPipelinedMessages) {
  Client client = connect();
  EXPECT_TRUE(client.send("hel"));
  for (int second = 0; second < 100; ++second) {
    EXPECT_TRUE(client.send("lo\nhel"));
    EXPECT_TRUE(answers(client, "hello\n"));
    pass(1);
  }
  EXPECT_EQ(open.size(), 1u);
  pass(19);
  EXPECT_TRUE(answers(client, "too slow\n"));
}

// ---- Memory

TEST_F(ProtocolConnectionTest, TheLargestAreShedWhenMemoryRunsOut) {
  Client small = connect();
  EXPECT_TRUE(small.send("hel"));
  std::vector<Client> large;
  for (int i = 0; i < 17; ++i) large.push_back(connect());
  for (Client& client : large) EXPECT_TRUE(client.send(std::string(63 << 10, 'x')));
  EXPECT_TRUE(run_until([&] { return budget.counts().shed > 0; }));
  EXPECT_LE(budget.counts().held, budget.counts().limit);
  EXPECT_TRUE(small.send("lo\n"));
  EXPECT_TRUE(answers(small, "hello\n"));
  EXPECT_GE(open.size(), 10u);
}

class Holder final : public MemoryHolder {
 public:
  void shed() noexcept override { is_shed = true; }
  bool is_shed = false;
};

TEST(LoopMemory, ShedsTheNewestOfEqualHolders) {
  MemoryBudget budget{100 << 10, 1};
  LoopMemory memory{budget};
  std::array<Holder, 11> holders;
  for (Holder& holder : holders) memory.count(holder, 10 << 10);
  memory.shed_largest();
  for (std::size_t i = 0; i < holders.size(); ++i) EXPECT_EQ(holders[i].is_shed, i >= 8) << i;
  for (Holder& holder : holders) memory.forget(holder);
  EXPECT_EQ(budget.counts().held, 0u);
}

TEST_F(ProtocolConnectionTest, ClosedConnectionsHoldNoMemory) {
  {
    Client client = connect();
    EXPECT_TRUE(client.send(std::string(10'000, 'x')));
    EXPECT_TRUE(run_until([&] { return budget.counts().held >= 9'000; }));
  }
  EXPECT_TRUE(gone());
  EXPECT_EQ(budget.counts().held, 0u);
  EXPECT_GE(budget.freed_since_peak(), 9'000u);
  EXPECT_EQ(budget.freed_since_peak(), 0u);
}

// A protocol that runs out of memory on the message "much".
class FailingAllocation final : public LineProtocol {
 public:
  using LineProtocol::LineProtocol;
  std::size_t on_input(std::string_view input, std::string& out) override {
    if (input.starts_with("much")) throw std::bad_alloc();
    return LineProtocol::on_input(input, out);
  }
};

TEST_F(ProtocolConnectionTest, AFailedAllocationClosesOneConnection) {
  Client other = connect();
  options.make_protocol = [this](const Peer&) {
    return std::make_unique<FailingAllocation>(counters);
  };
  Client client = connect();
  EXPECT_TRUE(client.send("little\n"));
  EXPECT_TRUE(answers(client, "little\n"));
  EXPECT_TRUE(client.send("much\n"));
  EXPECT_TRUE(run_until([&] { return open.size() == 1; }));
  EXPECT_EQ(client.read_all(), "");
  EXPECT_EQ(budget.counts().out_of_memory, 1u);
  EXPECT_TRUE(other.send("hello\n"));
  EXPECT_TRUE(answers(other, "hello\n"));
}

// A peer that lost power never closes: only keepalive probes find out.
TEST_F(ProtocolConnectionTest, EnablesTcpKeepalive) {
  const Client client(address.port());
  Peer peer;
  int error = EAGAIN;
  FileDescriptor socket;
  ASSERT_TRUE(eventually([&] { return socket = accept_next(listener, peer, error), error == 0; }));
  const auto option = [&](int level, int name) {
    int value = 0;
    socklen_t size = sizeof value;
    EXPECT_EQ(getsockopt(socket.fd(), level, name, &value, &size), 0);
    return value;
  };
  EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPIDLE), 300);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPINTVL) * option(IPPROTO_TCP, TCP_KEEPCNT), 120);
}

// Edge-triggered epoll reports both in one event, and only once.
TEST_F(ProtocolConnectionTest, NoticesAHalfCloseThatArrivesWithAMessage) {
  Client client = connect();
  EXPECT_TRUE(client.send("hello\n"));
  client.say_no_more();
  EXPECT_TRUE(answers(client, "hello\n"));
  EXPECT_TRUE(gone());
}

TEST_F(ProtocolConnectionTest, NoticesAPeerThatClosesAtOnce) {
  {
    Client client = connect();
    work();
  }
  EXPECT_TRUE(gone());
}

// More input than one read takes, which edge-triggered epoll reports only once.
TEST_F(ProtocolConnectionTest, ReadsMoreThanOneBufferOfInput) {
  Client client = connect();
  std::string lines;
  while (lines.size() < 3 * ReadBatch::kReadSize / 2) lines += "hello\n";
  std::string answered;
  std::thread sender([&] { EXPECT_TRUE(client.send(lines)); });
  EXPECT_TRUE(run_until([&] {
    while (client.has_something()) answered += client.read_some();
    return answered.size() == lines.size();
  }));
  sender.join();
  EXPECT_TRUE(answered == lines);
  EXPECT_TRUE(client.send("and then\n"));
  EXPECT_TRUE(answers(client, "and then\n"));
}

// Some of them end, some close, and some get long responses.
TEST_F(ProtocolConnectionTest, ServesMoreConnectionsThanFitIntoOneBatch) {
  std::vector<Client> clients;
  for (int i = 0; i < 40; ++i) clients.push_back(connect());
  const auto is_one_of = [](std::size_t i, std::size_t each) { return i % 5 == each; };
  const auto line = [](std::size_t i) { return "I am " + std::to_string(i) + "\n"; };
  std::vector<std::string> expected;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    std::string said = line(i);
    if (is_one_of(i, 1)) said += "quit\nand this is not heard\n";
    if (is_one_of(i, 2)) said += "100000 dots\n" + line(i);
    EXPECT_TRUE(clients[i].send(said));
    expected.push_back(line(i));
    if (is_one_of(i, 1)) expected.back() += "bye\n";
    if (is_one_of(i, 2)) expected.back() += LineProtocol::answer_to("100000 dots") + line(i);
  }
  for (std::size_t i = 3; i < clients.size(); i += 5) clients[i].close();
  std::vector<std::string> heard_by(clients.size());
  EXPECT_TRUE(run_until([&] {
    bool all = true;
    for (std::size_t i = 0; i < clients.size(); ++i) {
      if (is_one_of(i, 3)) continue;
      while (heard_by[i].size() < expected[i].size() && clients[i].has_something()) {
        heard_by[i] += clients[i].read_some();
      }
      all = all && heard_by[i].size() == expected[i].size();
    }
    return all;
  }));
  for (std::size_t i = 0; i < clients.size(); ++i) {
    EXPECT_TRUE(is_one_of(i, 3) || heard_by[i] == expected[i]) << i;
  }
  for (std::size_t i = 1; i < clients.size(); i += 5) clients[i].close();
  EXPECT_TRUE(run_until([&] { return open.size() == 24; }));
}

// Each input fills the read buffer, and ends in the middle of a message.
TEST_F(ProtocolConnectionTest, ServesManyLargeInputsAtOnce) {
  std::vector<Client> clients;
  for (int i = 0; i < 12; ++i) clients.push_back(connect());
  std::vector<std::string> said(clients.size());
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const std::string line = std::string(1000 + i, static_cast<char>('a' + i)) + '\n';
    while (said[i].size() < ReadBatch::kReadSize) said[i] += line;
  }
  std::thread sender([&] {
    for (std::size_t i = 0; i < clients.size(); ++i) EXPECT_TRUE(clients[i].send(said[i]));
  });
  std::vector<std::string> heard_by(clients.size());
  EXPECT_TRUE(run_until([&] {
    bool all = true;
    for (std::size_t i = 0; i < clients.size(); ++i) {
      while (clients[i].has_something()) heard_by[i] += clients[i].read_some();
      all = all && heard_by[i].size() == said[i].size();
    }
    return all;
  }));
  sender.join();
  EXPECT_TRUE(heard_by == said);
}

TEST_F(ProtocolConnectionTest, ClosesAfterTheIdleTimeout) {
  Client client = connect();
  pass(74);
  EXPECT_TRUE(client.send("hello\n"));
  EXPECT_TRUE(answers(client, "hello\n"));
  pass(74);
  EXPECT_EQ(open.size(), 1u);
  pass(1);
  EXPECT_TRUE(gone());
  EXPECT_EQ(client.read_all(), "");
}

TEST_F(ProtocolConnectionTest, KeepsIdleConnectionsIfTheIdleTimeoutIsZero) {
  options.idle_seconds = 0;
  Client client = connect();
  pass(10'000);
  EXPECT_TRUE(client.send("hello\n"));
  EXPECT_TRUE(answers(client, "hello\n"));
}

// ---- Taking turns

// Answers one line per call, as if that took a whole time slice.
class OneLinePerCall final : public LineProtocol {
 public:
  using LineProtocol::LineProtocol;
  std::size_t on_input(std::string_view input, std::string& out) override {
    const std::size_t end = input.find('\n');
    return LineProtocol::on_input(input.substr(0, end == std::string_view::npos ? end : end + 1),
                                  out);
  }
};

class BusyConnectionTest : public ProtocolConnectionTest {
 protected:
  BusyConnectionTest() {
    options.make_protocol = [this](const Peer&) {
      return std::make_unique<OneLinePerCall>(counters);
    };
  }
  // Reads responses until there are `size` bytes.
  std::string hear(Client& client, std::size_t size) {
    std::string all;
    EXPECT_TRUE(run_until([&] {
      if (client.has_something()) all += client.read_some();
      return all.size() >= size;
    }));
    return all;
  }
  static std::string lines(int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += std::to_string(i) + "th" + "\n";
    return all;
  }
  static std::string answers_to(int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += LineProtocol::answer_to(std::to_string(i) + "th");
    return all;
  }
};

TEST_F(BusyConnectionTest, YieldsToOtherConnections) {
  Client busy = connect();
  Client other = connect();
  EXPECT_TRUE(busy.send(lines(1'000)));
  EXPECT_TRUE(run_until([&] { return counters.answers > 0; }));
  EXPECT_TRUE(other.send("hello\n"));
  EXPECT_TRUE(answers(other, "hello\n"));
  EXPECT_EQ(loop.run_queue.size(), 1u) << "the other client did not wait for all of it";
  EXPECT_EQ(hear(busy, answers_to(1'000).size()), answers_to(1'000));
  EXPECT_TRUE(loop.run_queue.empty());
}

// Edge-triggered epoll does not report that input again.
TEST_F(BusyConnectionTest, ReadsInputThatArrivedWhileItWasQueued) {
  Client client = connect();
  EXPECT_TRUE(client.send(lines(10)));
  EXPECT_TRUE(run_until([&] { return counters.answers > 0; }));
  EXPECT_TRUE(client.send("and then\n"));
  client.say_no_more();
  EXPECT_EQ(hear(client, answers_to(10).size() + 9), answers_to(10) + "and then\n");
  EXPECT_TRUE(gone());
}

// The buffer holds many messages, none of which is too long.
TEST_F(BusyConnectionTest, KeepsInputUpToTheMaximumSize) {
  Client client = connect();
  std::string much;
  while (much.size() < 3 * options.max_input) much += std::string(999, 'x') + '\n';
  std::thread sender([&] { EXPECT_TRUE(client.send(much)); });
  EXPECT_EQ(hear(client, much.size()), much);
  sender.join();
}

TEST_F(BusyConnectionTest, LeavesTheRunQueueWhenThePeerIsGone) {
  Client client = connect();
  EXPECT_TRUE(client.send(lines(5'000)));
  EXPECT_TRUE(run_until([&] { return counters.answers > 0; }));
  client.reset();
  EXPECT_TRUE(gone());
  EXPECT_TRUE(loop.run_queue.empty());
  EXPECT_LT(counters.answers, answers_to(5'000).size());
}

// The time in the run queue does not count against the peer.
TEST_F(BusyConnectionTest, TimesOutTheNextMessageFromItsOwnFirstByte) {
  Client client = connect();
  EXPECT_TRUE(client.send("be"));
  EXPECT_TRUE(heard_of(2));
  pass(15);
  EXPECT_TRUE(client.send("gin\n" + lines(20) + "en"));
  EXPECT_EQ(hear(client, 6 + answers_to(20).size()), "begin\n" + answers_to(20));
  pass(15);
  EXPECT_EQ(open.size(), 1u);
  EXPECT_TRUE(client.send("d\n"));
  EXPECT_TRUE(answers(client, "end\n"));
}

TEST_F(BusyConnectionTest, AnswersAllInputBeforeItShutsDown) {
  Client client = connect();
  EXPECT_TRUE(client.send(lines(100)));
  EXPECT_TRUE(run_until([&] { return counters.answers > 0; }));
  for (const auto& connection : open) connection->shut_down();
  EXPECT_EQ(hear(client, answers_to(100).size()), answers_to(100));
  EXPECT_EQ(client.read_all(), "");
}

// ---- Peers that do not read

class StalledConnectionTest : public ProtocolConnectionTest {
 protected:
  static constexpr int kSmallBuffer = 4 << 10;
  static constexpr std::size_t kDots = 10'000;

  // True if nothing more can be sent. The kernel takes a moment to fill the buffers of both
  // sockets.
  bool is_stuck() {
    const std::uint64_t before = counters.answers;
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds{100};
    while (std::chrono::steady_clock::now() < until) work();
    return counters.answers == before;
  }

  // A client with more responses due than the socket buffers hold.
  Client connect_without_reading() {
    Client client = connect(kSmallBuffer);
    for (int i = 0; i < 3'000; ++i) EXPECT_TRUE(client.send("10000\n"));
    EXPECT_TRUE(
        run_until([&] { return counters.answers > Protocol::kOutputHighWater && is_stuck(); }));
    return client;
  }
};

TEST_F(StalledConnectionTest, ClosesWhenThePeerReadsNothing) {
  Client client = connect_without_reading();
  pass(29);
  EXPECT_EQ(open.size(), 1u);
  pass(1);
  EXPECT_TRUE(gone());
}

// Every byte that is read restarts the stall timeout.
TEST_F(StalledConnectionTest, StaysOpenWhileThePeerReadsSlowly) {
  Client client = connect_without_reading();
  for (int i = 0; i < 5; ++i) {
    pass(29);
    const std::uint64_t before = counters.answers;
    EXPECT_TRUE(run_until([&] { return client.read(kDots), counters.answers > before; }));
  }
  EXPECT_EQ(open.size(), 1u);
  EXPECT_TRUE(run_until([&] { return is_stuck(); }));
  pass(30);
  EXPECT_TRUE(gone());
}

// ---- Output without input

// A protocol that ignores input and sends what the test sets.
class ManualProtocol final : public Protocol {
 public:
  explicit ManualProtocol(ManualProtocol*& here) { here = this; }

  void use_waker(Waker& waker) override { waker_ = &waker; }
  std::size_t on_input(std::string_view input, std::string& out) override {
    heard += input.size();
    const std::size_t some = std::min(kOutputHighWater, output.size());
    out.append(output, 0, some);
    output.erase(0, some);
    return input.size();
  }
  bool in_message() const override { return false; }
  bool ends() const override { return false; }
  bool on_tick() override { return std::exchange(has_timed_output, false); }
  void on_timeout(std::string&) override {}
  void on_shutdown() override { output += "farewell"; }
  void say(std::string_view text) {
    output += text;
    waker_->wake();
  }

  std::string output;
  std::size_t heard = 0;
  bool has_timed_output = false;

 private:
  Waker* waker_ = nullptr;
};

class WokenConnectionTest : public ProtocolConnectionTest {
 protected:
  WokenConnectionTest() {
    options.make_protocol = [this](const Peer&) {
      return std::make_unique<ManualProtocol>(protocol);
    };
  }
  void resume_woken() {
    for (ProtocolConnection* const each : std::exchange(loop.woken, {})) each->resume();
  }
  ManualProtocol* protocol = nullptr;
};

// The connection keeps reading: the output responds to an earlier request.
TEST_F(WokenConnectionTest, SendsOutputWhenItIsWokenWhileReading) {
  Client client = connect();
  EXPECT_TRUE(client.send("question"));
  EXPECT_TRUE(run_until([&] { return protocol->heard == 8; }));
  protocol->say("answer");
  resume_woken();
  EXPECT_TRUE(answers(client, "answer"));
  EXPECT_TRUE(client.send("more"));
  EXPECT_TRUE(run_until([&] { return protocol->heard == 12; }));
}

// The protocol stops at the high-water mark, and is called again without input.
TEST_F(WokenConnectionTest, SendsAllOutputAlsoBeyondTheHighWaterMark) {
  Client client = connect();
  const std::string much(5 * Protocol::kOutputHighWater + 1, 'x');
  protocol->say(much);
  resume_woken();
  std::string got;
  EXPECT_TRUE(run_until([&] {
    if (client.has_something()) got += client.read_some();
    return got.size() >= much.size();
  }));
  EXPECT_EQ(got, much);
}

TEST_F(WokenConnectionTest, SendsOutputThatATickHasMade) {
  Client client = connect();
  protocol->output = "news";
  pass(1);
  EXPECT_FALSE(client.has_something());
  protocol->has_timed_output = true;
  pass(1);
  EXPECT_TRUE(answers(client, "news"));
}

TEST_F(WokenConnectionTest, SendsOutputBeforeItShutsDown) {
  Client client = connect();
  open.at(0)->shut_down();
  EXPECT_TRUE(answers(client, "farewell"));
  EXPECT_EQ(client.read_all(), "");
}

// ---- With TLS

class TlsConnectionTest : public StalledConnectionTest {
 protected:
  TlsConnectionTest() {
    options.idle_seconds = 0;
    options = with_tls(options, current, {});
  }

  // Carries bytes between both ends until the predicate is true.
  template <typename Predicate>
  bool talk_until(Client& client, TlsClient& tls, Predicate is_true) {
    return run_until([&] {
      EXPECT_TRUE(client.send(tls.said()));
      if (client.has_something()) tls.hears(client.read_some());
      return is_true();
    });
  }

  ClientContext trusting{SSL_CTX_new(TLS_client_method()), &SSL_CTX_free};
  Identity self = make_identity("self");
  PemFolder folder;
  CurrentTls current{*load_tls({.cert = folder.write("cert.pem", self.certificate),
                                .key = folder.write("key.pem", self.key)})};
};

// Idle connections have no timeout here, but the handshake has one.
TEST_F(TlsConnectionTest, TimesOutBeforeTheHandshakeBegins) {
  const Client client = connect();
  pass(19);
  EXPECT_EQ(open.size(), 1u);
  pass(1);
  EXPECT_TRUE(gone());
}

TEST_F(TlsConnectionTest, TimesOutDuringTheHandshake) {
  Client client = connect();
  pass(10);
  EXPECT_TRUE(client.send("\x16\x03\x01"));
  pass(9);
  EXPECT_TRUE(client.send("\x01"));
  EXPECT_EQ(open.size(), 1u);
  pass(1);
  EXPECT_TRUE(gone());
  EXPECT_EQ(client.read_all(), "");
}

TEST_F(TlsConnectionTest, CountsASessionAsMemoryFromTheBeginning) {
  Client client = connect();
  EXPECT_GT(budget.counts().held, 4u << 10);
  TlsClient tls(trusting.get());
  tls.shake_hands();
  EXPECT_TRUE(client.send(tls.said()));
  EXPECT_TRUE(run_until([&] { return budget.counts().held > 32u << 10; }));
}

TEST_F(TlsConnectionTest, ClosesWhenAHandshakeIsAborted) {
  Client client = connect();
  EXPECT_TRUE(client.send("\x16\x03\x01"));
  client.close();
  EXPECT_TRUE(gone());
}

// All input has arrived and is consumed as far as the connection knows. Only the responses that the
// client reads make it continue.
TEST_F(TlsConnectionTest, ContinuesWhenTheClientReadsItsResponses) {
  Client client = connect(kSmallBuffer);
  TlsClient tls(trusting.get());
  tls.shake_hands();
  EXPECT_TRUE(talk_until(client, tls, [&] { return tls.is_let_in(); }));
  std::string questions;
  std::string answers;
  for (int i = 0; i < 800; ++i) {
    questions += "10000\n";
    answers += LineProtocol::answer_to("10000");
  }
  tls.say(questions);
  EXPECT_TRUE(client.send(tls.said()));
  EXPECT_TRUE(
      run_until([&] { return counters.answers > Protocol::kOutputHighWater && is_stuck(); }));
  EXPECT_LT(counters.answers, answers.size());
  EXPECT_TRUE(talk_until(client, tls, [&] { return tls.received.size() >= answers.size(); }));
  EXPECT_EQ(tls.received, answers);
}

// The timeout of a message does not include the time of the one before.
TEST_F(TlsConnectionTest, RestartsTheTimeoutForPipelinedMessages) {
  Client client = connect();
  TlsClient tls(trusting.get());
  tls.shake_hands();
  EXPECT_TRUE(talk_until(client, tls, [&] { return tls.is_let_in(); }));
  tls.say("hel");
  std::string expected;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(client.send(tls.said()));
    pass(19);
    tls.say("lo\nhel");
    expected += "hello\n";
    EXPECT_TRUE(talk_until(client, tls, [&] { return tls.received == expected; }));
  }
  EXPECT_EQ(open.size(), 1u);
}

// Protects against truncation: a client can tell the end from a cut connection.
TEST_F(TlsConnectionTest, SendsCloseNotify) {
  Client client = connect();
  TlsClient tls(trusting.get());
  tls.shake_hands();
  EXPECT_TRUE(talk_until(client, tls, [&] { return tls.is_let_in(); }));
  tls.say("hello\n");
  EXPECT_TRUE(talk_until(client, tls, [&] { return tls.received == "hello\n"; }));
  pass(1'000);
  EXPECT_EQ(open.size(), 1u) << "idle connections have no timeout here";
  for (const auto& connection : open) connection->shut_down();
  EXPECT_TRUE(talk_until(client, tls, [&] { return tls.ended; }));
}

// ---- Channels with TLS

class ByteChannelTest : public TlsConnectionTest, protected ChannelOwner {
 protected:
  void on_connected() override { stands = true; }
  void on_input(std::string_view input) override { came += input; }
  void on_sent() override {}
  void on_eof() override {}
  void on_error(std::string_view why) override { broken = why; }
  void on_out_of_memory() noexcept override {}

  FileDescriptor accept() {
    Peer peer;
    int error = EAGAIN;
    FileDescriptor socket;
    EXPECT_TRUE(eventually([&] {
      socket = accept_next(listener, peer, error);
      return error == 0;
    }));
    return socket;
  }
  static std::size_t arrived(const FileDescriptor& socket) {
    char room[1 << 10];
    const ssize_t count = recv(socket.fd(), room, sizeof room, MSG_PEEK);
    return count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  // True if epoll has no event: a loop would sleep.
  bool is_quiet() { return !loop.poller.wait(std::chrono::milliseconds{0}); }

  LoopContext ground{.poller = loop.poller, .memory = loop.memory};
  bool stands = false;
  std::string came;
  std::string broken;
};

// The socket is writable all the while, but TLS waits for input.
TEST_F(ByteChannelTest, CausesNoEventsWhileAServerOwesItsPartOfTheHandshake) {
  const TlsContext context = *load_client_tls({});
  ByteChannel channel(ground, address, context, "self", *this);
  const FileDescriptor silent = accept();
  EXPECT_TRUE(run_until([&] { return arrived(silent) > 0; }));
  EXPECT_TRUE(is_quiet());
  EXPECT_FALSE(stands) << "the handshake is not complete";
  channel.send("hello");
  EXPECT_TRUE(is_quiet());
}

TEST_F(ByteChannelTest, CausesNoEventsWhileAClientOwesItsPartOfTheHandshake) {
  Client client(address.port());
  const TlsContext context = current.get();
  const std::string any;
  ByteChannel channel(ground, SocketStream(accept(), context, any), *this);
  channel.send("hello");
  channel.want_input(false);
  EXPECT_TRUE(is_quiet());
  TlsClient tls(trusting.get());
  tls.shake_hands();
  EXPECT_TRUE(talk_until(client, tls, [&] { return tls.received == "hello"; }));
  EXPECT_EQ(channel.unsent(), 0u);
}

TEST_F(ByteChannelTest, CountsTheSessionAsMemory) {
  Client client(address.port());
  const std::string any;
  ByteChannel channel(ground, SocketStream(accept(), current.get(), any), *this);
  EXPECT_GT(budget.counts().held, 4u << 10);
  TlsClient tls(trusting.get());
  tls.shake_hands();
  EXPECT_TRUE(client.send(tls.said()));
  EXPECT_TRUE(run_until([&] { return budget.counts().held > 32u << 10; }));
  channel.close();
  EXPECT_EQ(budget.counts().held, 0u);
}

TEST_F(ByteChannelTest, IsConnectedAfterTheHandshake) {
  const TlsContext context = *load_client_tls({.ca = folder.path("cert.pem")});
  ByteChannel channel(ground, address, context, "self", *this);
  const std::string any;
  SocketStream server(accept(), current.get(), any);
  EXPECT_TRUE(run_until([&] { return (void)server.shake_hands(), stands; }));
  EXPECT_EQ(broken, "");
  channel.send("hello");
  char room[10];
  EXPECT_TRUE(run_until([&] { return server.read(room, sizeof room).count == 5; }));
  EXPECT_EQ(server.write("well").count, 4u);
  EXPECT_TRUE(run_until([&] { return came == "well"; }));
}

TEST_F(ByteChannelTest, ReportsWhyAHandshakeFailed) {
  const TlsContext context = *load_client_tls({.ca = folder.path("cert.pem")});
  const ByteChannel channel(ground, address, context, "another", *this);
  const std::string any;
  SocketStream server(accept(), current.get(), any);
  EXPECT_TRUE(run_until([&] { return (void)server.shake_hands(), !broken.empty(); }));
  EXPECT_THAT(broken, testing::HasSubstr("certificate verify failed"));
  EXPECT_FALSE(stands);
}

// ---- Closing

// The lingering close has a timeout.
TEST_F(ProtocolConnectionTest, ClosesSoonAlthoughThePeerDoesNot) {
  Client client = connect();
  EXPECT_TRUE(client.send("quit\n"));
  EXPECT_TRUE(answers(client, "bye\n"));
  EXPECT_EQ(client.read_all(), "");
  pass(1);
  EXPECT_TRUE(client.send("but"));
  EXPECT_EQ(open.size(), 1u);
  pass(1);
  EXPECT_TRUE(gone());
}

}  // namespace
}  // namespace weir::net
