#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "../../../support/folder.h"
#include "net/file_descriptor.h"

namespace weir::store::redis {

inline sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A socket bound to a free port of this machine.
struct BoundSocket {
  BoundSocket() : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(socket.fd(), plain, size), 0);
    EXPECT_EQ(getsockname(socket.fd(), plain, &size), 0);
    port = ntohs(address.sin_port);
  }
  void listen() const { EXPECT_EQ(::listen(socket.fd(), 16), 0); }
  net::FileDescriptor accept() const {
    return net::FileDescriptor(::accept(socket.fd(), nullptr, nullptr));
  }

  net::FileDescriptor socket;
  std::uint16_t port = 0;
};

inline std::uint16_t free_port() { return BoundSocket().port; }

// A redis-server in a folder of its own, killed when the object is destroyed. It may not accept
// connections yet when the constructor returns.
class RedisServer {
 public:
  // `port` 0: no TCP port.
  explicit RedisServer(std::vector<std::string> options = {}, std::uint16_t port = free_port())
      : options_(std::move(options)), port_(port) {
    start();
  }
  ~RedisServer() { kill(); }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  std::uint16_t port() const { return port_; }
  std::string socket_path() const { return folder_ / "redis.sock"; }

  void start() {
    std::vector<std::string> words{
        "redis-server", "--port",       std::to_string(port_), "--bind", "127.0.0.1", "--dir",
        folder_.path(), "--unixsocket", socket_path(),         "--save", ""};
    words.insert(words.end(), options_.begin(), options_.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = fork();
    ASSERT_GE(pid_, 0);
    if (pid_ > 0) return;
    const int null_device = open("/dev/null", O_WRONLY);
    dup2(null_device, STDOUT_FILENO);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  void hang() const { ::kill(pid_, SIGSTOP); }
  void go_on() const { ::kill(pid_, SIGCONT); }

 private:
  const std::vector<std::string> options_;
  const std::uint16_t port_;
  const support::Folder folder_;
  pid_t pid_ = -1;
};

}  // namespace weir::store::redis
