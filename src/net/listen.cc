#include "net/listen.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

namespace weir::net {

namespace {

sockaddr* plain(sockaddr_storage& bytes) { return reinterpret_cast<sockaddr*>(&bytes); }
const sockaddr* plain(const sockaddr_storage& bytes) {
  return reinterpret_cast<const sockaddr*>(&bytes);
}

// The port, in the order of the network. Both kinds of address have it in the same place.
in_port_t& port_of(sockaddr_storage& bytes) {
  return reinterpret_cast<sockaddr_in&>(bytes).sin_port;
}

void set(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof value);
}

void turn_on(int fd, int level, int option) { set(fd, level, option, 1); }

// Some may be silent for as long as they like: the system finds out whether they are still there.
// (After five minutes, and then two more.)
void look_after(int fd) {
  turn_on(fd, SOL_SOCKET, SO_KEEPALIVE);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 300);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 30);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

Descriptor open_socket(const Address& address) {
  Descriptor socket(
      ::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.is_open()) turn_on(socket.fd(), SOL_SOCKET, SO_REUSEADDR);
  return socket;
}

bool is_loopback(const in_addr& address) { return (ntohl(address.s_addr) >> 24) == 127; }

Peer peer_at(const sockaddr_storage& bytes) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (bytes.ss_family == AF_INET) {
    const in_addr& address = reinterpret_cast<const sockaddr_in&>(bytes).sin_addr;
    inet_ntop(AF_INET, &address, text.data(), text.size());
    return {.address = text.data(), .loopback = is_loopback(address)};
  }
  const in6_addr& address = reinterpret_cast<const sockaddr_in6&>(bytes).sin6_addr;
  inet_ntop(AF_INET6, &address, text.data(), text.size());
  // Who comes by IPv4 to a socket for both looks like ::ffff:127.0.0.1.
  in_addr mapped{};
  std::memcpy(&mapped, address.s6_addr + 12, sizeof mapped);
  const bool loopback =
      IN6_IS_ADDR_V4MAPPED(&address) ? is_loopback(mapped) : IN6_IS_ADDR_LOOPBACK(&address) != 0;
  return {.address = text.data(), .loopback = loopback};
}

}  // namespace

std::uint16_t Address::port() const {
  sockaddr_storage copy = bytes;
  return ntohs(port_of(copy));
}

void Address::set_port(std::uint16_t port) { port_of(bytes) = htons(port); }

bool Address::operator==(const Address& other) const {
  return size == other.size && std::memcmp(&bytes, &other.bytes, size) == 0;
}

Result<std::vector<Address>, Error> resolve_all(const std::string& host, std::uint16_t port) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  if (failed != 0) return Error{gai_strerror(failed)};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    Address& address = addresses.emplace_back();
    address.size = each->ai_addrlen;
    std::memcpy(&address.bytes, each->ai_addr, each->ai_addrlen);
    address.set_port(port);
  }
  return addresses;
}

Result<Address, Error> resolve(const std::string& host, std::uint16_t port) {
  const auto addresses = resolve_all(host, port);
  if (!addresses) return addresses.error();
  return addresses->front();
}

int taken(const Address& address) {
  const Descriptor probe = open_socket(address);
  if (!probe.is_open()) return errno;
  if (bind(probe.fd(), plain(address.bytes), address.size) != 0) return errno;
  return listen(probe.fd(), 1) == 0 ? 0 : errno;
}

Descriptor bind_shared(Address& address, int& error) {
  Descriptor socket = open_socket(address);
  if (socket.is_open()) turn_on(socket.fd(), SOL_SOCKET, SO_REUSEPORT);
  const bool bound = socket.is_open() &&
                     bind(socket.fd(), plain(address.bytes), address.size) == 0 &&
                     getsockname(socket.fd(), plain(address.bytes), &address.size) == 0;
  error = bound ? 0 : errno;
  return bound ? std::move(socket) : Descriptor();
}

Descriptor start_connecting(const Address& address, int& error) {
  Descriptor socket(
      ::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  error = socket.is_open() ? 0 : errno;
  if (!socket.is_open()) return socket;
  turn_on(socket.fd(), IPPROTO_TCP, TCP_NODELAY);
  if (connect(socket.fd(), plain(address.bytes), address.size) == 0) return socket;
  if (errno == EINPROGRESS) return socket;
  error = errno;
  return Descriptor();
}

Descriptor accept_next(const Descriptor& listener, Peer& peer, int& error) {
  sockaddr_storage from{};
  socklen_t size = sizeof from;
  Descriptor socket(accept4(listener.fd(), plain(from), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
  error = socket.is_open() ? 0 : errno;
  if (!socket.is_open()) return socket;
  turn_on(socket.fd(), IPPROTO_TCP, TCP_NODELAY);
  look_after(socket.fd());
  peer = peer_at(from);
  return socket;
}

}  // namespace weir::net
