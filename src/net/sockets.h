#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "net/file_descriptor.h"
#include "net/protocol.h"
#include "weir/result.h"

namespace weir::net {

// A socket address, IPv4, IPv6 or Unix.
struct SocketAddress {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  std::uint16_t port() const;
  void set_port(std::uint16_t port);
  bool operator==(const SocketAddress& other) const;
};

// All addresses of a host name, in the order to try them; never empty. Blocks during the DNS
// lookup.
Result<std::vector<SocketAddress>, Error> resolve_all(const std::string& host, std::uint16_t port);
// The first address of a host name. Blocks likewise.
Result<SocketAddress, Error> resolve(const std::string& host, std::uint16_t port);

// The errno with which listening on the address fails, or 0. Loops bind with SO_REUSEPORT, which
// would also succeed if another process listens there with it. This tries without.
int bind_error(const SocketAddress& address);

// A socket bound to the address with SO_REUSEPORT. Sets `address` to the actual one (port 0 becomes
// a real port). On failure returns a closed descriptor and sets `error` to errno.
FileDescriptor bind_reuseport(SocketAddress& address, int& error);

// A non-blocking socket with connect() in progress: it becomes writable when the connection is
// established or has failed. On failure returns a closed descriptor and sets `error` to errno.
FileDescriptor start_connecting(const SocketAddress& address, int& error);

// Accepts one connection as a non-blocking socket. Returns a closed descriptor and sets `error` to
// errno if none is pending (EAGAIN) or on failure, for instance without free descriptors.
FileDescriptor accept_next(const FileDescriptor& listener, Peer& peer, int& error);

}  // namespace weir::net
