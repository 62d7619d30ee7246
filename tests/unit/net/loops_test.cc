#include "net/loops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <latch>
#include <optional>
#include <thread>
#include <vector>

#include "client.h"
#include "line_protocol.h"

namespace weir::net {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr int kSmallBuffer = 4 << 10;

// Many requests whose responses exceed any socket buffer.
struct Flood {
  static constexpr int kQuestions = 3'000;
  static constexpr std::size_t kDots = 10'000;

  std::string questions;
  std::string answers;

  Flood() {
    for (int i = 0; i < kQuestions; ++i) {
      const std::string line = std::to_string(kDots) + " answer " + std::to_string(i);
      questions += line + "\n";
      answers += LineProtocol::answer_to(line);
    }
  }
};

class LoopsTest : public testing::Test {
 protected:
  // One loop by default: a response to one client shows that the loop serves the others, too.
  std::uint16_t open(const LoopOptions& options = {}) {
    return open(line_listener(counters), options);
  }
  std::uint16_t open(const ListenerOptions& listener, const LoopOptions& options = {}) {
    loops = std::make_unique<Loops>(options);
    const auto port = loops->bind("127.0.0.1", 0, listener);
    EXPECT_TRUE(port);
    loops->start();
    return *port;
  }

  void expect_well(Client& client) {
    EXPECT_TRUE(client.send("well?\n"));
    EXPECT_EQ(client.read(6), "well?\n");
  }
  void expect_well(std::uint16_t port) {
    Client client(port);
    expect_well(client);
  }
  // Lets the loop complete enough iterations to have handled all pending events.
  void let_it_run(std::uint16_t port) {
    Client client(port);
    for (int i = 0; i < 100; ++i) expect_well(client);
  }
  // Stops the loops gracefully, and runs `others` meanwhile.
  template <typename Others>
  void stop_while(Others others) {
    std::thread stop([&] { loops->stop(kTimeout); });
    others();
    stop.join();
  }
  bool all_gone() {
    return eventually([&] { return loops->counts().open == 0; });
  }

  Counters counters;
  std::unique_ptr<Loops> loops;
};

// ---- Messages

TEST_F(LoopsTest, AnswersAMessage) {
  Client client(open());
  EXPECT_TRUE(client.send("hello\n"));
  EXPECT_EQ(client.read(6), "hello\n");
  EXPECT_TRUE(client.send("again\n"));
  EXPECT_EQ(client.read(6), "again\n");
}

// Messages that arrive while it busy-polls, and others that arrive when it sleeps again.
TEST_F(LoopsTest, AnswersMessagesThatArriveWhileItSpins) {
  const std::uint16_t port = open({.spin = std::chrono::microseconds{500}});
  Client client(port);
  for (int i = 0; i < 200; ++i) {
    expect_well(client);
    if (i % 50 == 0) let_it_run(port);
  }
  loops->stop(std::chrono::seconds{5});
  EXPECT_EQ(client.read_all(), "");
}

// Messages that arrive while it does not poll.
TEST_F(LoopsTest, AnswersMessagesThatArriveWhileItGathers) {
  const std::uint16_t port = open({.gather = std::chrono::microseconds{500}});
  Client client(port);
  for (int i = 0; i < 200; ++i) expect_well(client);
  EXPECT_TRUE(client.send("one\ntwo\n"));
  let_it_run(port);
  EXPECT_TRUE(client.send("three\n"));
  EXPECT_EQ(client.read(14), "one\ntwo\nthree\n");
  loops->stop(std::chrono::seconds{5});
  EXPECT_EQ(client.read_all(), "");
}

TEST_F(LoopsTest, AnswersAMessageThatComesInPieces) {
  const std::uint16_t port = open();
  Client client(port);
  for (const std::string_view piece : {"a me", "ssage i", "n pieces\nand an", "other\n"}) {
    EXPECT_TRUE(client.send(piece));
    let_it_run(port);
  }
  EXPECT_EQ(client.read(32), "a message in pieces\nand another\n");
}

TEST_F(LoopsTest, AnswersAClientThatSendsOneByteAtATime) {
  const std::uint16_t port = open();
  Client slow(port);
  Client other(port);
  for (const char byte : std::string_view("byte by byte\n")) {
    EXPECT_TRUE(slow.send({&byte, 1}));
    expect_well(other);
  }
  EXPECT_EQ(slow.read(13), "byte by byte\n");
}

TEST_F(LoopsTest, AnswersPipelinedMessagesInOrder) {
  Client client(open());
  std::string lines;
  for (int i = 0; i < 5'000; ++i) lines += "line " + std::to_string(i) + "\n";
  EXPECT_TRUE(client.send(lines));
  EXPECT_EQ(client.read(lines.size()), lines);
}

// The input buffer grows with a message, up to the maximum size.
TEST_F(LoopsTest, AnswersMessagesUpToTheMaximumSize) {
  ListenerOptions options = line_listener(counters);
  options.max_input = 20'000;
  const std::uint16_t port = open(options);
  const std::string longest = std::string(options.max_input - 1, 'x') + "\n";
  Client client(port);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(client.send(longest));
    EXPECT_EQ(client.read(longest.size()), longest);
  }
  // Also with a message before it in the buffer.
  EXPECT_TRUE(client.send("short\n" + longest));
  EXPECT_EQ(client.read(6 + longest.size()), "short\n" + longest);
}

TEST_F(LoopsTest, ClosesOnAMessageOverTheMaximumSize) {
  ListenerOptions options = line_listener(counters);
  options.max_input = 20'000;
  const std::uint16_t port = open(options);
  Client client(port);
  client.send(std::string(options.max_input, 'x') + "\n");
  EXPECT_EQ(client.read_all(), "");
  EXPECT_LE(counters.bytes, options.max_input);
  EXPECT_TRUE(all_gone());
  expect_well(port);
}

// ---- Backpressure

// The protocol is not called while responses are unsent; afterwards none is lost or out of order.
TEST_F(LoopsTest, ContinuesWhenTheClientReadsItsResponses) {
  const std::uint16_t port = open();
  const Flood flood;
  Client greedy(port, kSmallBuffer);
  EXPECT_TRUE(greedy.send(flood.questions));
  ASSERT_TRUE(eventually([&] { return counters.answers > Protocol::kOutputHighWater; }));
  let_it_run(port);
  EXPECT_LT(counters.answers, flood.answers.size() / 2);
  EXPECT_TRUE(greedy.read(flood.answers.size()) == flood.answers);
  expect_well(greedy);
  EXPECT_EQ(counters.unsent, 0u);
}

// Further requests stay in the client's and the kernel's buffers.
TEST_F(LoopsTest, StopsReadingFromClientsThatDoNotRead) {
  const std::uint16_t port = open();
  const Flood flood;
  Client greedy(port, kSmallBuffer);
  EXPECT_TRUE(greedy.send(flood.questions));
  ASSERT_TRUE(eventually([&] { return counters.answers > Protocol::kOutputHighWater; }));
  let_it_run(port);
  const std::uint64_t before = counters.bytes;
  Client other(port);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(greedy.send("more\n"));
    expect_well(other);
  }
  EXPECT_EQ(counters.bytes - before, 100 * std::string_view("well?\n").size());
}

TEST_F(LoopsTest, AnswersOtherClientsWhileManyDoNotRead) {
  const std::uint16_t port = open();
  const Flood flood;
  std::vector<Client> greedy;
  for (int i = 0; i < 50; ++i) {
    greedy.emplace_back(port, kSmallBuffer);
    EXPECT_TRUE(greedy.back().send(flood.questions));
  }
  Client other(port);
  for (int i = 0; i < 1'000; ++i) expect_well(other);
  EXPECT_EQ(loops->counts().open, 51u);
}

TEST_F(LoopsTest, ClosesAfterTheStallTimeout) {
  ListenerOptions options = line_listener(counters);
  options.stall_seconds = 1;
  const std::uint16_t port = open(options);
  const Flood flood;
  Client greedy(port, kSmallBuffer);
  greedy.send(flood.questions);
  ASSERT_TRUE(eventually([&] { return counters.answers > Protocol::kOutputHighWater; }));
  EXPECT_TRUE(all_gone());
  const std::string rest = greedy.read_all();
  EXPECT_LT(rest.size(), flood.answers.size());
  EXPECT_TRUE(flood.answers.starts_with(rest));
  expect_well(port);
}

// ---- Timeouts

TEST_F(LoopsTest, AnswersThatAMessageTimedOut) {
  ListenerOptions options = line_listener(counters);
  options.message_seconds = 1;
  Client client(open(options));
  EXPECT_TRUE(client.send("whole\nhalf"));
  EXPECT_EQ(client.read_all(), "whole\ntoo slow\n");
}

// Further bytes do not extend the timeout.
TEST_F(LoopsTest, TimesOutAMessageThatGrowsWithoutEnd) {
  ListenerOptions options = line_listener(counters);
  options.message_seconds = 1;
  Client client(open(options));
  EXPECT_TRUE(eventually([&] { return !client.send("x") || client.has_something(); }));
  EXPECT_EQ(client.read_all(), "too slow\n");
}

TEST_F(LoopsTest, ClosesIdleConnectionsButNotThoseInAMessage) {
  ListenerOptions options = line_listener(counters);
  options.idle_seconds = 1;
  options.message_seconds = 1'000;
  const std::uint16_t port = open(options);
  Client in_message(port);
  EXPECT_TRUE(in_message.send("to be contin"));
  ASSERT_TRUE(eventually([&] { return counters.bytes > 0; }));
  Client idle(port);
  EXPECT_EQ(idle.read_all(), "");
  EXPECT_TRUE(in_message.send("ued\n"));
  EXPECT_EQ(in_message.read(16), "to be continued\n");
}

// ---- Many connections

TEST_F(LoopsTest, RefusesConnectionsBeyondTheLimitWithAReply) {
  const std::uint16_t port = open({.threads = 2, .max_connections = 3});
  std::vector<Client> clients;
  for (int i = 0; i < 3; ++i) expect_well(clients.emplace_back(port));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Client(port).read_all(), "too many\n");
  const LoopCounts counts = loops->counts();
  EXPECT_EQ(counts.accepted, 3u);
  EXPECT_EQ(counts.rejected, 5u);
  EXPECT_EQ(counts.open, 3u);
  for (Client& client : clients) expect_well(client);

  clients[1].close();
  EXPECT_TRUE(eventually([&] { return loops->counts().open == 2; }));
  expect_well(port);
  EXPECT_EQ(loops->counts().rejected, 5u);
}

TEST_F(LoopsTest, ServesManyConnectionsOnAllThreads) {
  const std::uint16_t port = open({.threads = 4});
  std::vector<Client> clients;
  for (int i = 0; i < 200; ++i) clients.emplace_back(port);
  for (Client& client : clients) EXPECT_TRUE(client.send("well?\n"));
  for (Client& client : clients) EXPECT_EQ(client.read(6), "well?\n");
  EXPECT_EQ(loops->counts().accepted, 200u);
  EXPECT_EQ(loops->counts().open, 200u);
  clients.clear();
  EXPECT_TRUE(all_gone());
}

// ---- Closing

TEST_F(LoopsTest, SurvivesConnectionResets) {
  const std::uint16_t port = open();
  const Flood flood;
  for (const std::string& said : {std::string(), std::string("half a mess"), flood.questions}) {
    Client client(port, kSmallBuffer);
    EXPECT_TRUE(client.send(said));
    let_it_run(port);
    client.reset();
  }
  EXPECT_TRUE(all_gone());
  expect_well(port);
}

// A client that has shut down its write side still wants the responses.
TEST_F(LoopsTest, AnswersAClientThatHasHalfClosed) {
  const std::uint16_t port = open();
  const Flood flood;
  Client client(port, kSmallBuffer);
  EXPECT_TRUE(client.send(flood.questions));
  client.say_no_more();
  EXPECT_TRUE(client.read_all() == flood.answers);
  EXPECT_TRUE(all_gone());
}

// The last response arrives although the client keeps sending.
TEST_F(LoopsTest, ClosesWhenTheProtocolEnds) {
  const std::uint16_t port = open();
  Client client(port);
  EXPECT_TRUE(client.send("hello\nquit\nhello\n"));
  client.send(std::string(200'000, 'x'));
  EXPECT_EQ(client.read_all(), "hello\nbye\n");
  client.close();
  EXPECT_TRUE(all_gone());
}

TEST_F(LoopsTest, ClosesAfterTheLastResponseIsSent) {
  const Flood flood;
  Client client(open(), kSmallBuffer);
  EXPECT_TRUE(client.send(flood.questions + "quit\n"));
  EXPECT_TRUE(client.read_all() == flood.answers + "bye\n");
}

// ---- Stopping

TEST_F(LoopsTest, AnswersArrivedMessagesBeforeItStops) {
  const std::uint16_t port = open({.threads = 2});
  std::vector<Client> clients;
  for (int i = 0; i < 100; ++i) expect_well(clients.emplace_back(port));
  for (Client& client : clients) EXPECT_TRUE(client.send("one\ntwo\n"));
  stop_while([&] {
    for (Client& client : clients) EXPECT_EQ(client.read_all(), "one\ntwo\n");
    clients.clear();
  });
  EXPECT_EQ(counters.shutdowns, 100u);
}

// Connections that the kernel has queued are accepted and answered.
TEST_F(LoopsTest, AcceptsPendingConnectionsBeforeItStops) {
  for (int round = 0; round < 50; ++round) {
    const std::uint16_t port = open({.threads = 2});
    std::vector<Client> clients;
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(clients.emplace_back(port).send("hello\n"));
    stop_while([&] {
      for (Client& client : clients) EXPECT_EQ(client.read_all(), "hello\n");
      clients.clear();
    });
  }
}

TEST_F(LoopsTest, FinishesMessagesUnderWayBeforeItStops) {
  const std::uint16_t port = open();
  const Flood flood;
  Client late(port, kSmallBuffer);
  Client half(port);
  EXPECT_TRUE(late.send(flood.questions));
  EXPECT_TRUE(half.send("hel"));
  let_it_run(port);
  stop_while([&] {
    EXPECT_TRUE(eventually([&] { return counters.shutdowns > 0; }));
    EXPECT_TRUE(half.send("lo\n"));
    EXPECT_EQ(half.read_all(), "hello\n");
    EXPECT_TRUE(late.read_all() == flood.answers);
    half.close();
    late.close();
  });
}

TEST_F(LoopsTest, StopsAfterTheGracePeriodAlthoughConnectionsAreStuck) {
  const std::uint16_t port = open({.threads = 2});
  const Flood flood;
  std::vector<Client> stuck;
  for (const std::string& said : {std::string(), std::string("half a mess"), flood.questions}) {
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(stuck.emplace_back(port, kSmallBuffer).send(said));
  }
  let_it_run(port);
  loops->stop(100ms);
  loops.reset();
  for (Client& client : stuck) EXPECT_TRUE(flood.answers.starts_with(client.read_all()));
}

TEST_F(LoopsTest, StopsAtOnceWithoutConnections) {
  open({.threads = 2});
  const auto start = std::chrono::steady_clock::now();
  loops->stop(kTimeout);
  loops->stop(kTimeout);
  EXPECT_LT(std::chrono::steady_clock::now() - start, kTimeout) << "there was nothing to wait for";
  EXPECT_EQ(loops->counts().open, 0u);
}

TEST_F(LoopsTest, CanStopWithoutHavingStarted) {
  loops = std::make_unique<Loops>(LoopOptions{.threads = 2});
  EXPECT_TRUE(loops->bind("127.0.0.1", 0, line_listener(counters)));
  loops->stop(kTimeout);
}

// ---- Listeners

TEST_F(LoopsTest, BindsAFreePortForPortZero) {
  loops = std::make_unique<Loops>(LoopOptions{.threads = 3});
  const auto first = loops->bind("127.0.0.1", 0, line_listener(counters));
  const auto second = loops->bind("127.0.0.1", 0, line_listener(counters));
  ASSERT_TRUE(first);
  ASSERT_TRUE(second);
  EXPECT_NE(*first, 0);
  EXPECT_NE(*first, *second);
  loops->start();
  expect_well(*first);
  expect_well(*second);
}

TEST_F(LoopsTest, NamesTheAddressThatItCannotBind) {
  const std::uint16_t port = open();
  Loops second(LoopOptions{.threads = 2});
  const auto taken = second.bind("127.0.0.1", port, line_listener(counters));
  ASSERT_FALSE(taken);
  const std::string at = std::to_string(port);
  EXPECT_EQ(taken.error().message, "cannot listen on 127.0.0.1:" + at +
                                       ": Address already in use: another program listens there "
                                       "(ss -ltnp 'sport = :" +
                                       at + "' tells which); end it, or choose another port");
  const auto elsewhere = second.bind("192.0.2.1", 7379, line_listener(counters));
  ASSERT_FALSE(elsewhere);
  EXPECT_THAT(elsewhere.error().message, HasSubstr("cannot listen on 192.0.2.1:7379: "));
  const auto far = second.bind("2001:db8::1", 7379, line_listener(counters));
  ASSERT_FALSE(far);
  EXPECT_THAT(far.error().message, HasSubstr("cannot listen on [2001:db8::1]:7379: "));
}

TEST_F(LoopsTest, RefusesToBindOnePortTwice) {
  loops = std::make_unique<Loops>(LoopOptions{.threads = 2});
  const auto first = loops->bind("127.0.0.1", 0, line_listener(counters));
  ASSERT_TRUE(first);
  EXPECT_FALSE(loops->bind("127.0.0.1", *first, line_listener(counters)));
}

class PeerTest : public LoopsTest {
 protected:
  // This machine as a listener at `host` sees it; nothing if it cannot bind.
  std::optional<Peer> seen_at(const std::string& host) {
    Peer seen;
    ListenerOptions options = line_listener(counters);
    options.make_protocol = [&](const Peer& peer) {
      seen = peer;
      return std::make_unique<LineProtocol>(counters);
    };
    loops = std::make_unique<Loops>(LoopOptions{});
    const auto port = loops->bind(host, 0, options);
    if (!port) return std::nullopt;
    loops->start();
    expect_well(*port);
    loops->stop(kTimeout);
    return seen;
  }
};

TEST_F(PeerTest, HasTheAddressOfTheClient) {
  const auto seen = seen_at("127.0.0.1");
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->address, "127.0.0.1");
  EXPECT_TRUE(seen->loopback);
}

// A dual-stack listener sees IPv4 clients as mapped addresses. The loopback address has its rights
// in this form, too.
TEST_F(PeerTest, IsLoopbackAlsoAsAMappedIpv4Address) {
  const auto seen = seen_at("::");
  if (!seen) GTEST_SKIP() << "no IPv6 here";
  EXPECT_EQ(seen->address, "::ffff:127.0.0.1");
  EXPECT_TRUE(seen->loopback);
}

// ---- Progress of the loops

// Blocks the loop until it is released.
class Hanging final : public Protocol {
 public:
  Hanging(std::latch& hangs, std::latch& goes_on) : hangs_(hangs), goes_on_(goes_on) {}
  std::size_t on_input(std::string_view input, std::string& out) override {
    hangs_.count_down();
    goes_on_.wait();
    out += "on\n";
    return input.size();
  }
  bool in_message() const override { return false; }
  bool ends() const override { return false; }
  void on_timeout(std::string&) override {}
  void on_shutdown() override {}

 private:
  std::latch& hangs_;
  std::latch& goes_on_;
};

TEST_F(LoopsTest, ReportsThatAllLoopsMakeProgress) {
  open({.threads = 3});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(eventually([&] { return loops->all_loops_progressed(); }));
  }
}

TEST_F(LoopsTest, ReportsNoProgressWhileALoopHangs) {
  std::latch hangs{1};
  std::latch goes_on{1};
  Client client(
      open({.make_protocol = [&](const Peer&) { return std::make_unique<Hanging>(hangs, goes_on); },
            .over_limit_reply = {},
            .max_input = 100}));
  ASSERT_TRUE(client.send("x\n"));
  hangs.wait();
  (void)loops->all_loops_progressed();  // resets earlier progress
  EXPECT_FALSE(loops->all_loops_progressed());
  goes_on.count_down();
  EXPECT_EQ(client.read(3), "on\n");
  EXPECT_TRUE(eventually([&] { return loops->all_loops_progressed(); }));
}

// ---- Functions posted by other threads

TEST_F(LoopsTest, RunsPostedFunctionsOnItsOwnThread) {
  std::shared_ptr<Mailbox> mailbox;
  std::thread::id own;
  EXPECT_EQ(mailbox_of_this_thread(), nullptr);
  const auto port = open({.make_protocol =
                              [&](const Peer&) {
                                mailbox = mailbox_of_this_thread();
                                own = std::this_thread::get_id();
                                return std::make_unique<LineProtocol>(counters);
                              },
                          .over_limit_reply = {},
                          .max_input = 100});
  expect_well(port);
  ASSERT_NE(mailbox, nullptr);
  std::promise<std::thread::id> runs_on;
  mailbox->post([&] { runs_on.set_value(std::this_thread::get_id()); });
  EXPECT_EQ(runs_on.get_future().get(), own);
  std::promise<void> runs_too;
  mailbox->post([] { throw std::bad_alloc(); });
  mailbox->post([&] { runs_too.set_value(); });
  runs_too.get_future().wait();
  EXPECT_EQ(loops->memory().out_of_memory, 1u);
  loops.reset();
  auto dropped = std::make_shared<int>();
  mailbox->post([dropped] { ++*dropped; });
  EXPECT_EQ(dropped.use_count(), 1) << "the loop has ended";
}

}  // namespace
}  // namespace weir::net
