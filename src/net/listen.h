#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "net/descriptor.h"
#include "net/protocol.h"
#include "weir/result.h"

namespace weir::net {

// Where one listens, as the system has it.
struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  std::uint16_t port() const;
  void set_port(std::uint16_t port);
  bool operator==(const Address& other) const;
};

// All addresses of a host name, in the order to try them; never empty. Blocks while it is looked
// up.
Result<std::vector<Address>, Error> resolve_all(const std::string& host, std::uint16_t port);
// The first of them.
Result<Address, Error> resolve(const std::string& host, std::uint16_t port);

// Whether somebody listens there: why one cannot, or 0. Loops share their ports, and the system
// would let another process share them, too; one attempt without sharing shows it.
int taken(const Address& address);

// A socket bound there that shares its port with others that do. Sets `address` to where it is
// bound, and `error` if it cannot be.
Descriptor bind_shared(Address& address, int& error);

// A socket on its way there: it becomes writable when it stands, or cannot. Closed if there is
// none, which `error` tells.
Descriptor start_connecting(const Address& address, int& error);

// The next who waits to be let in, on a socket that does not block; closed if nobody does or the
// system has no more descriptors, which `error` tells.
Descriptor accept_next(const Descriptor& listener, Peer& peer, int& error);

}  // namespace weir::net
