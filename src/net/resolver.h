#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "net/sockets.h"
#include "weir/result.h"

namespace weir::net {

using Addresses = Result<std::vector<SocketAddress>, Error>;

// Parses a numeric IP address, without a lookup. Empty if `host` is a name.
std::vector<SocketAddress> numeric_address(const std::string& host, std::uint16_t port);

// Resolves a host name asynchronously. getaddrinfo(3) blocks, so each lookup has a detached thread;
// a cancelled one ends later by itself. There is at most one thread: a start while it runs waits
// for that thread's result.
class Resolver {
 public:
  Resolver();
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // Becomes readable when there is a result.
  int descriptor() const;

  void start(const std::string& host, std::uint16_t port);
  void cancel();
  // The result of the last start, once; null if there is none yet.
  std::unique_ptr<Addresses> result();

 private:
  struct SharedResult;
  std::shared_ptr<SharedResult> shared_;
};

}  // namespace weir::net
