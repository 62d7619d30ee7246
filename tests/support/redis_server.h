#pragma once

#include <sys/types.h>

#include <string>

namespace weir::test_support {

// An empty redis-server on a socket in a private folder; stopped with this object. Throws if it
// cannot be started.
class RedisServer {
 public:
  RedisServer();
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  const std::string& socket() const { return socket_; }

  // One server for all tests of a program.
  static RedisServer& shared();

 private:
  std::string folder_;
  std::string socket_;
  pid_t pid_ = -1;
};

}  // namespace weir::test_support
