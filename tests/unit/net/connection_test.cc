// How long a connection waits for what. The clock is the test's: nothing waits for real.

#include "net/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>

#include "certificates.h"
#include "client.h"
#include "lines.h"
#include "net/channel.h"
#include "net/listen.h"
#include "net/tls.h"
#include "tls_client.h"

namespace weir::net {
namespace {

class ConnectionTest : public testing::Test {
 protected:
  ConnectionTest() {
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
    Descriptor socket;
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

  // Works as a loop would, until it is true.
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
  Door options = line_listener(counters);
  MemoryBudget budget{1 << 20, 1};
  LoopState loop{.memory = LoopMemory(budget)};
  std::vector<std::unique_ptr<ProtocolConnection>> open;
  Address address = *resolve("127.0.0.1", 0);
  Descriptor listener;
};

TEST_F(ConnectionTest, WaitsForAMessageFromItsBeginning) {
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

TEST_F(ConnectionTest, WaitsAsLongForTheNextMessage) {
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

// Who is always in the middle of the next message is not slow: those before it were finished.
TEST_F(ConnectionTest, WaitsForEachOfMessagesThatFollowEachOther) {
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

TEST_F(ConnectionTest, LargestHoldersAreShedWhenAllHoldTooMuch) {
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

TEST_F(ConnectionTest, MemoryIsNotHeldByConnectionsThatHaveEnded) {
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

// A protocol for whose second message there is no memory.
class Greedy final : public LineProtocol {
 public:
  using LineProtocol::LineProtocol;
  std::size_t on_input(std::string_view input, std::string& out) override {
    if (input.starts_with("much")) throw std::bad_alloc();
    return LineProtocol::on_input(input, out);
  }
};

TEST_F(ConnectionTest, OnlyTheConnectionWithoutMemoryIsClosed) {
  Client other = connect();
  options.speak = [this](const Peer&) { return std::make_unique<Greedy>(counters); };
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

// A peer without power says nothing, for ever: the system has to ask for it.
TEST_F(ConnectionTest, LetsTheSystemFindOutWhetherAPeerIsThere) {
  const Client client(address.port());
  Peer peer;
  int error = EAGAIN;
  Descriptor socket;
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

// The system tells of both at once, and only once.
TEST_F(ConnectionTest, HearsAnEndThatComesWithAMessage) {
  Client client = connect();
  EXPECT_TRUE(client.send("hello\n"));
  client.say_no_more();
  EXPECT_TRUE(answers(client, "hello\n"));
  EXPECT_TRUE(gone());
}

TEST_F(ConnectionTest, HearsOfAPeerThatHasGoneWithoutAWord) {
  {
    Client client = connect();
    work();
  }
  EXPECT_TRUE(gone());
}

// More than is read at once, of which the system tells only once.
TEST_F(ConnectionTest, ReadsAllThatHasCome) {
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

// More than are served in one round, some of whom end, go, or have more to say than others.
TEST_F(ConnectionTest, ServesEverybodyWhoComesAtOnce) {
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

// As much as there is room for at once, and half of a message of each at the end of it.
TEST_F(ConnectionTest, ServesEverybodyWhoBringsMuch) {
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

TEST_F(ConnectionTest, ClosesWhenItHasBeenIdle) {
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

TEST_F(ConnectionTest, MayBeIdleForever) {
  options.idle_seconds = 0;
  Client client = connect();
  pass(10'000);
  EXPECT_TRUE(client.send("hello\n"));
  EXPECT_TRUE(answers(client, "hello\n"));
}

// ---- Taking turns

// Answers one line each time that it is asked, as if that were a lot of work.
class OneByOne final : public LineProtocol {
 public:
  using LineProtocol::LineProtocol;
  std::size_t on_input(std::string_view input, std::string& out) override {
    const std::size_t end = input.find('\n');
    return LineProtocol::on_input(input.substr(0, end == std::string_view::npos ? end : end + 1), out);
  }
};

class ToilingConnectionTest : public ConnectionTest {
 protected:
  ToilingConnectionTest() {
    options.speak = [this](const Peer&) { return std::make_unique<OneByOne>(counters); };
  }
  // Everything that is answered until all of that size is.
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

TEST_F(ToilingConnectionTest, LetsOthersHaveTheirTurn) {
  Client busy = connect();
  Client other = connect();
  EXPECT_TRUE(busy.send(lines(1'000)));
  EXPECT_TRUE(run_until([&] { return counters.answers > 0; }));
  EXPECT_TRUE(other.send("hello\n"));
  EXPECT_TRUE(answers(other, "hello\n"));
  EXPECT_EQ(loop.run_queue.size(), 1u) << "the other did not wait for all of it";
  EXPECT_EQ(hear(busy, answers_to(1'000).size()), answers_to(1'000));
  EXPECT_TRUE(loop.run_queue.empty());
}

// Of what came meanwhile there is no news a second time.
TEST_F(ToilingConnectionTest, ReadsWhatHasComeMeanwhile) {
  Client client = connect();
  EXPECT_TRUE(client.send(lines(10)));
  EXPECT_TRUE(run_until([&] { return counters.answers > 0; }));
  EXPECT_TRUE(client.send("and then\n"));
  client.say_no_more();
  EXPECT_EQ(hear(client, answers_to(10).size() + 9), answers_to(10) + "and then\n");
  EXPECT_TRUE(gone());
}

// As much as a message may be, of which none is too long.
TEST_F(ToilingConnectionTest, KeepsAsMuchAsThereIsRoomFor) {
  Client client = connect();
  std::string much;
  while (much.size() < 3 * options.most_input) much += std::string(999, 'x') + '\n';
  std::thread sender([&] { EXPECT_TRUE(client.send(much)); });
  EXPECT_EQ(hear(client, much.size()), much);
  sender.join();
}

TEST_F(ToilingConnectionTest, LeavesTheLineWhenThePeerHasGone) {
  Client client = connect();
  EXPECT_TRUE(client.send(lines(5'000)));
  EXPECT_TRUE(run_until([&] { return counters.answers > 0; }));
  client.reset();
  EXPECT_TRUE(gone());
  EXPECT_TRUE(loop.run_queue.empty());
  EXPECT_LT(counters.answers, answers_to(5'000).size());
}

// What it had to wait for was not the peer's fault.
TEST_F(ToilingConnectionTest, WaitsForTheRestOfAMessageFromWhenItBegan) {
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

TEST_F(ToilingConnectionTest, AnswersAllThatHasComeBeforeItEnds) {
  Client client = connect();
  EXPECT_TRUE(client.send(lines(100)));
  EXPECT_TRUE(run_until([&] { return counters.answers > 0; }));
  for (const auto& connection : open) connection->shut_down();
  EXPECT_EQ(hear(client, answers_to(100).size()), answers_to(100));
  EXPECT_EQ(client.read_all(), "");
}

// ---- Peers that take nothing

class StalledConnectionTest : public ConnectionTest {
 protected:
  static constexpr int kSmallBuffer = 4 << 10;
  static constexpr std::size_t kDots = 10'000;

  // Whether nothing more can be sent. The systems at both ends take a moment to fill their buffers.
  bool is_stuck() {
    const std::uint64_t before = counters.answers;
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds{100};
    while (std::chrono::steady_clock::now() < until) work();
    return counters.answers == before;
  }

  // Somebody who has asked for more than the system keeps for it.
  Client connect_greedy() {
    Client client = connect(kSmallBuffer);
    for (int i = 0; i < 3'000; ++i) EXPECT_TRUE(client.send("10000\n"));
    EXPECT_TRUE(run_until([&] { return counters.answers > Protocol::kEnough && is_stuck(); }));
    return client;
  }
};

TEST_F(StalledConnectionTest, ClosesWhenNothingIsTaken) {
  Client client = connect_greedy();
  pass(29);
  EXPECT_EQ(open.size(), 1u);
  pass(1);
  EXPECT_TRUE(gone());
}

// Slowly is not too slowly.
TEST_F(StalledConnectionTest, WaitsAsLongAsSomethingIsTaken) {
  Client client = connect_greedy();
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

// ---- Speaking without being spoken to

// Answers nothing, but says what it is told to say.
class Talker final : public Protocol {
 public:
  explicit Talker(Talker*& here) { here = this; }

  void use_waker(Waker& waker) override { waker_ = &waker; }
  std::size_t on_input(std::string_view input, std::string& out) override {
    heard += input.size();
    const std::size_t some = std::min(kEnough, to_say.size());
    out.append(to_say, 0, some);
    to_say.erase(0, some);
    return input.size();
  }
  bool in_message() const override { return false; }
  bool ends() const override { return false; }
  bool look_around() override { return std::exchange(has_news, false); }
  void on_timeout(std::string&) override {}
  void on_shutdown() override { to_say += "farewell"; }
  void say(std::string_view text) {
    to_say += text;
    waker_->wake();
  }

  std::string to_say;
  std::size_t heard = 0;
  bool has_news = false;

 private:
  Waker* waker_ = nullptr;
};

class TalkingConnectionTest : public ConnectionTest {
 protected:
  TalkingConnectionTest() {
    options.speak = [this](const Peer&) { return std::make_unique<Talker>(talker); };
  }
  void resume_woken() {
    for (ProtocolConnection* const each : std::exchange(loop.woken, {})) each->resume();
  }
  Talker* talker = nullptr;
};

// It reads on all the while: what it says is about something that was asked earlier.
TEST_F(TalkingConnectionTest, SpeaksWhenItIsWokenThoughItReads) {
  Client client = connect();
  EXPECT_TRUE(client.send("question"));
  EXPECT_TRUE(run_until([&] { return talker->heard == 8; }));
  talker->say("answer");
  resume_woken();
  EXPECT_TRUE(answers(client, "answer"));
  EXPECT_TRUE(client.send("more"));
  EXPECT_TRUE(run_until([&] { return talker->heard == 12; }));
}

// It stops where there is enough, and is asked again though nothing has come.
TEST_F(TalkingConnectionTest, SpeaksUntilAllIsSaid) {
  Client client = connect();
  const std::string much(5 * Protocol::kEnough + 1, 'x');
  talker->say(much);
  resume_woken();
  std::string got;
  EXPECT_TRUE(run_until([&] {
    if (client.has_something()) got += client.read_some();
    return got.size() >= much.size();
  }));
  EXPECT_EQ(got, much);
}

TEST_F(TalkingConnectionTest, SpeaksWhenTimeHasMadeItHaveSomethingToSay) {
  Client client = connect();
  talker->to_say = "news";
  pass(1);
  EXPECT_FALSE(client.has_something());
  talker->has_news = true;
  pass(1);
  EXPECT_TRUE(answers(client, "news"));
}

TEST_F(TalkingConnectionTest, SpeaksBeforeItEnds) {
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

  // Passes on what both say until it is true.
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

// Whoever is let in may be silent as long as it likes, but not before.
TEST_F(TlsConnectionTest, DoesNotWaitForeverForAHandshakeToBegin) {
  const Client client = connect();
  pass(19);
  EXPECT_EQ(open.size(), 1u);
  pass(1);
  EXPECT_TRUE(gone());
}

TEST_F(TlsConnectionTest, DoesNotWaitForeverForAHandshakeToEnd) {
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

TEST_F(TlsConnectionTest, ClosesWhenAHandshakeIsBrokenOff) {
  Client client = connect();
  EXPECT_TRUE(client.send("\x16\x03\x01"));
  client.close();
  EXPECT_TRUE(gone());
}

// All questions have come, and are used up as far as anybody can see: the answers that have been
// bind_error make it go on.
TEST_F(TlsConnectionTest, GoesOnWhenAnswersHaveBeenTaken) {
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
  EXPECT_TRUE(run_until([&] { return counters.answers > Protocol::kEnough && is_stuck(); }));
  EXPECT_LT(counters.answers, answers.size());
  EXPECT_TRUE(talk_until(client, tls, [&] { return tls.received.size() >= answers.size(); }));
  EXPECT_EQ(tls.received, answers);
}

// Who is slow in the middle of a message was not slow in the one before it.
TEST_F(TlsConnectionTest, WaitsForEachOfMessagesThatFollowEachOther) {
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

// Nobody in between can cut off what was said without being noticed.
TEST_F(TlsConnectionTest, SaysGoodbye) {
  Client client = connect();
  TlsClient tls(trusting.get());
  tls.shake_hands();
  EXPECT_TRUE(talk_until(client, tls, [&] { return tls.is_let_in(); }));
  tls.say("hello\n");
  EXPECT_TRUE(talk_until(client, tls, [&] { return tls.received == "hello\n"; }));
  pass(1'000);
  EXPECT_EQ(open.size(), 1u) << "who is let in may be silent";
  for (const auto& connection : open) connection->shut_down();
  EXPECT_TRUE(talk_until(client, tls, [&] { return tls.ended; }));
}

// ---- Channels with TLS

class ChannelTest : public TlsConnectionTest, protected ChannelOwner {
 protected:
  void on_connected() override { stands = true; }
  void on_input(std::string_view input) override { came += input; }
  void on_sent() override {}
  void on_end() override {}
  void on_broken(std::string_view why) override { broken = why; }
  void on_out_of_memory() noexcept override {}

  Descriptor accept() {
    Peer peer;
    int error = EAGAIN;
    Descriptor socket;
    EXPECT_TRUE(eventually([&] {
      socket = accept_next(listener, peer, error);
      return error == 0;
    }));
    return socket;
  }
  static std::size_t arrived(const Descriptor& socket) {
    char room[1 << 10];
    const ssize_t count = recv(socket.fd(), room, sizeof room, MSG_PEEK);
    return count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  // Whether there is nothing to do until somebody says something: a loop sleeps.
  bool is_quiet() { return !loop.poller.wait(std::chrono::milliseconds{0}); }

  Ground ground{.poller = loop.poller, .memory = loop.memory};
  bool stands = false;
  std::string came;
  std::string broken;
};

// There is room for its words all the while, which is of no use to it.
TEST_F(ChannelTest, SleepsWhileAServerOwesItsPartOfTheHandshake) {
  const TlsContext context = *load_client_tls({});
  Channel channel(ground, address, context, "self", *this);
  const Descriptor silent = accept();
  EXPECT_TRUE(run_until([&] { return arrived(silent) > 0; }));
  EXPECT_TRUE(is_quiet());
  EXPECT_FALSE(stands) << "who knows whether it ever will";
  channel.send("hello");
  EXPECT_TRUE(is_quiet());
}

TEST_F(ChannelTest, SleepsWhileAClientOwesItsPartOfTheHandshake) {
  Client client(address.port());
  const TlsContext context = current.get();
  const std::string any;
  Channel channel(ground, Stream(accept(), context, any), *this);
  channel.send("hello");
  channel.want_input(false);
  EXPECT_TRUE(is_quiet());
  TlsClient tls(trusting.get());
  tls.shake_hands();
  EXPECT_TRUE(talk_until(client, tls, [&] { return tls.received == "hello"; }));
  EXPECT_EQ(channel.unsent(), 0u);
}

TEST_F(ChannelTest, StandsWhenBothHaveShakenHands) {
  const TlsContext context = *load_client_tls({.ca = folder.path("cert.pem")});
  Channel channel(ground, address, context, "self", *this);
  const std::string any;
  Stream server(accept(), current.get(), any);
  EXPECT_TRUE(run_until([&] { return (void)server.shake_hands(), stands; }));
  EXPECT_EQ(broken, "");
  channel.send("hello");
  char room[10];
  EXPECT_TRUE(run_until([&] { return server.read(room, sizeof room).count == 5; }));
  EXPECT_EQ(server.write("well").count, 4u);
  EXPECT_TRUE(run_until([&] { return came == "well"; }));
}

TEST_F(ChannelTest, TellsWhyAHandshakeFailed) {
  const TlsContext context = *load_client_tls({.ca = folder.path("cert.pem")});
  const Channel channel(ground, address, context, "another", *this);
  const std::string any;
  Stream server(accept(), current.get(), any);
  EXPECT_TRUE(run_until([&] { return (void)server.shake_hands(), !broken.empty(); }));
  EXPECT_THAT(broken, testing::HasSubstr("certificate verify failed"));
  EXPECT_FALSE(stands);
}

// ---- Ending

// Who was told that it is over has a moment to hear it, and cannot stay.
TEST_F(ConnectionTest, DoesNotWaitLongForAPeerToClose) {
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
