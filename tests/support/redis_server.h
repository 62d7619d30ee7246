#pragma once

#include <sys/types.h>

#include <string>

namespace weir::test_support {

// A redis-server with nothing in it, on a socket in a folder of its own; gone with this object.
// Throws if there is none to be started.
class RedisServer {
 public:
  RedisServer();
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  const std::string& socket() const { return socket_; }

  // One for all tests of a program.
  static RedisServer& shared();

 private:
  std::string folder_;
  std::string socket_;
  pid_t pid_ = -1;
};

}  // namespace weir::test_support
