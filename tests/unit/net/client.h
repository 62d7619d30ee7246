#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace weir::net {

// Timeout of every wait. No test depends on how long something takes, but one that fails must end.
constexpr std::chrono::seconds kTimeout{60};

// Polls until the predicate is true; false on timeout.
template <typename Predicate>
bool eventually(Predicate is_true) {
  const auto until = std::chrono::steady_clock::now() + kTimeout;
  while (!is_true()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// A blocking TCP client.
class Client {
 public:
  // `receive_buffer`: SO_RCVBUF in bytes; 0: the system's default.
  explicit Client(std::uint16_t port, int receive_buffer = 0)
      : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) set(SO_RCVBUF, receive_buffer);
    set(SO_RCVTIMEO, timeval{.tv_sec = kTimeout.count(), .tv_usec = 0});
    set(SO_SNDTIMEO, timeval{.tv_sec = kTimeout.count(), .tv_usec = 0});
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool connected =
        connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    EXPECT_TRUE(connected) << "cannot connect to port " << port;
  }
  ~Client() { close(); }
  Client(Client&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  Client& operator=(Client&&) = delete;

  // True if all of it was sent.
  bool send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t count = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (count < 0) return false;
      text.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }

  // Reads `count` bytes, or fewer if the connection ends before.
  std::string read(std::size_t count) {
    std::string all;
    char piece[1 << 16];
    while (all.size() < count) {
      const ssize_t got = recv(socket_, piece, std::min(sizeof piece, count - all.size()), 0);
      EXPECT_TRUE(got >= 0 || errno == ECONNRESET) << "timeout";
      if (got <= 0) break;
      all.append(piece, static_cast<std::size_t>(got));
    }
    return all;
  }

  // Reads the bytes that are available; waits for the first.
  std::string read_some() {
    char piece[1 << 16];
    const ssize_t got = recv(socket_, piece, sizeof piece, 0);
    EXPECT_GE(got, 0) << "timeout";
    return got > 0 ? std::string(piece, static_cast<std::size_t>(got)) : "";
  }

  // Reads up to the end of the connection.
  std::string read_all() { return read(std::string::npos); }

  // True if there is input, or the end of the connection.
  bool has_something() {
    char byte = 0;
    return recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
  }

  // Half-closes: it still reads.
  void say_no_more() { EXPECT_EQ(shutdown(socket_, SHUT_WR), 0); }

  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }

  // Closes with a TCP reset.
  void reset() {
    set(SO_LINGER, linger{.l_onoff = 1, .l_linger = 0});
    close();
  }

 private:
  template <typename Value>
  void set(int option, Value value) {
    EXPECT_EQ(setsockopt(socket_, SOL_SOCKET, option, &value, sizeof value), 0);
  }

  int socket_;
};

}  // namespace weir::net
