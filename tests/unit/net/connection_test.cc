// How long a connection waits for what. The clock is the test's: nothing waits for real.

#include "net/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include "client.h"
#include "lines.h"

namespace weir::net {
namespace {

using boost::asio::ip::tcp;

class ConnectionTest : public testing::Test {
 protected:
  ConnectionTest() {
    door.idle_seconds = 75;
    door.message_seconds = 20;
    door.stall_seconds = 30;
  }

  Client connect(int receive_buffer = 0) {
    Client client(acceptor.local_endpoint().port(), receive_buffer);
    tcp::socket socket = acceptor.accept();
    socket.non_blocking(true);
    std::make_shared<Connection>(std::move(socket), door, Peer{}, connections)->start();
    return client;
  }

  // Works as a loop would, until it is true.
  template <typename Predicate>
  bool run_until(Predicate is_true) {
    return eventually([&] {
      context.restart();
      context.poll();
      return is_true();
    });
  }
  bool answers(Client& client, std::string_view text) {
    const bool arrived = run_until([&] { return client.has_something(); });
    return arrived && client.read(text.size()) == text;
  }
  bool heard_of(std::size_t bytes) {
    return run_until([&] { return heard.bytes == bytes; });
  }
  bool gone() {
    return run_until([&] { return connections.open.empty(); });
  }

  void pass(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      ++connections.second;
      for (Connection* connection : connections.open) connection->check_patience();
      context.restart();
      context.poll();
    }
  }

  Heard heard;
  Door door = lines_door(heard);
  Connections connections;
  boost::asio::io_context context{1};
  tcp::acceptor acceptor{context, {boost::asio::ip::address_v4::loopback(), 0}};
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
    EXPECT_TRUE(run_until([&] { return heard.bytes % 6 == 3; }));
    pass(19);
    EXPECT_TRUE(client.send("lo\n"));
    EXPECT_TRUE(answers(client, "hello\n"));
  }
  EXPECT_EQ(connections.open.size(), 1u);
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
  EXPECT_EQ(connections.open.size(), 1u);
  pass(19);
  EXPECT_TRUE(answers(client, "too slow\n"));
}

TEST_F(ConnectionTest, ClosesWhenItHasBeenIdle) {
  Client client = connect();
  pass(74);
  EXPECT_TRUE(client.send("hello\n"));
  EXPECT_TRUE(answers(client, "hello\n"));
  pass(74);
  EXPECT_EQ(connections.open.size(), 1u);
  pass(1);
  EXPECT_TRUE(gone());
  EXPECT_EQ(client.read_all(), "");
}

TEST_F(ConnectionTest, MayBeIdleForever) {
  door.idle_seconds = 0;
  Client client = connect();
  pass(10'000);
  EXPECT_TRUE(client.send("hello\n"));
  EXPECT_TRUE(answers(client, "hello\n"));
}

class StalledConnectionTest : public ConnectionTest {
 protected:
  static constexpr int kSmallBuffer = 4 << 10;
  static constexpr std::size_t kDots = 10'000;

  // Somebody who has asked for more than the system keeps for it.
  Client connect_greedy() {
    Client client = connect(kSmallBuffer);
    for (int i = 0; i < 3'000; ++i) EXPECT_TRUE(client.send("10000\n"));
    EXPECT_TRUE(run_until([&] { return heard.answers > Protocol::kEnough; }));
    return client;
  }
};

TEST_F(StalledConnectionTest, ClosesWhenNothingIsTaken) {
  Client client = connect_greedy();
  pass(29);
  EXPECT_EQ(connections.open.size(), 1u);
  pass(1);
  EXPECT_TRUE(gone());
}

// Slowly is not too slowly.
TEST_F(StalledConnectionTest, WaitsAsLongAsSomethingIsTaken) {
  Client client = connect_greedy();
  for (int i = 0; i < 5; ++i) {
    pass(29);
    const std::uint64_t before = heard.answers;
    EXPECT_TRUE(run_until([&] { return client.read(kDots), heard.answers > before; }));
  }
  EXPECT_EQ(connections.open.size(), 1u);
  pass(30);
  EXPECT_TRUE(gone());
}

// Who was told that it is over has a moment to hear it, and cannot stay.
TEST_F(ConnectionTest, DoesNotWaitLongForAPeerToClose) {
  Client client = connect();
  EXPECT_TRUE(client.send("quit\n"));
  EXPECT_TRUE(answers(client, "bye\n"));
  EXPECT_EQ(client.read_all(), "");
  pass(1);
  EXPECT_TRUE(client.send("but"));
  EXPECT_EQ(connections.open.size(), 1u);
  pass(1);
  EXPECT_TRUE(gone());
}

}  // namespace
}  // namespace weir::net
