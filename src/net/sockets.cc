#include "net/sockets.h"

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

sockaddr* as_sockaddr(sockaddr_storage& bytes) { return reinterpret_cast<sockaddr*>(&bytes); }
const sockaddr* as_sockaddr(const sockaddr_storage& bytes) {
  return reinterpret_cast<const sockaddr*>(&bytes);
}

// The port in network byte order. It is at the same offset for IPv4 and IPv6.
in_port_t& port_of(sockaddr_storage& bytes) {
  return reinterpret_cast<sockaddr_in&>(bytes).sin_port;
}

void set_option(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof value);
}

void enable(int fd, int level, int option) { set_option(fd, level, option, 1); }

// Enables TCP keepalive, since some connections may be idle without limit: probes after five
// minutes, and gives the peer up two minutes later.
void enable_keepalive(int fd) {
  enable(fd, SOL_SOCKET, SO_KEEPALIVE);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 300);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 30);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

FileDescriptor open_socket(const SocketAddress& address) {
  FileDescriptor socket(
      ::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.is_open()) enable(socket.fd(), SOL_SOCKET, SO_REUSEADDR);
  return socket;
}

bool is_loopback(const in_addr& address) { return (ntohl(address.s_addr) >> 24) == 127; }

Peer to_peer(const sockaddr_storage& bytes) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (bytes.ss_family == AF_INET) {
    const in_addr& address = reinterpret_cast<const sockaddr_in&>(bytes).sin_addr;
    inet_ntop(AF_INET, &address, text.data(), text.size());
    return {.address = text.data(), .loopback = is_loopback(address)};
  }
  const in6_addr& address = reinterpret_cast<const sockaddr_in6&>(bytes).sin6_addr;
  inet_ntop(AF_INET6, &address, text.data(), text.size());
  // IPv4 clients of a dual-stack socket have a mapped address, such as ::ffff:127.0.0.1.
  in_addr mapped{};
  std::memcpy(&mapped, address.s6_addr + 12, sizeof mapped);
  const bool loopback =
      IN6_IS_ADDR_V4MAPPED(&address) ? is_loopback(mapped) : IN6_IS_ADDR_LOOPBACK(&address) != 0;
  return {.address = text.data(), .loopback = loopback};
}

}  // namespace

std::uint16_t SocketAddress::port() const {
  sockaddr_storage copy = bytes;
  return ntohs(port_of(copy));
}

void SocketAddress::set_port(std::uint16_t port) { port_of(bytes) = htons(port); }

bool SocketAddress::operator==(const SocketAddress& other) const {
  return size == other.size && std::memcmp(&bytes, &other.bytes, size) == 0;
}

Result<std::vector<SocketAddress>, Error> resolve_all(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (failed != 0) return Error{gai_strerror(failed)};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    address.size = each->ai_addrlen;
    std::memcpy(&address.bytes, each->ai_addr, each->ai_addrlen);
    address.set_port(port);
  }
  return addresses;
}

Result<SocketAddress, Error> resolve(const std::string& host, std::uint16_t port) {
  const auto addresses = resolve_all(host, port);
  if (!addresses) return addresses.error();
  return addresses->front();
}

int bind_error(const SocketAddress& address) {
  const FileDescriptor probe = open_socket(address);
  if (!probe.is_open()) return errno;
  if (bind(probe.fd(), as_sockaddr(address.bytes), address.size) != 0) return errno;
  return listen(probe.fd(), 1) == 0 ? 0 : errno;
}

FileDescriptor bind_reuseport(SocketAddress& address, int& error) {
  FileDescriptor socket = open_socket(address);
  if (socket.is_open()) enable(socket.fd(), SOL_SOCKET, SO_REUSEPORT);
  const bool bound = socket.is_open() &&
                     bind(socket.fd(), as_sockaddr(address.bytes), address.size) == 0 &&
                     getsockname(socket.fd(), as_sockaddr(address.bytes), &address.size) == 0;
  error = bound ? 0 : errno;
  return bound ? std::move(socket) : FileDescriptor();
}

FileDescriptor start_connecting(const SocketAddress& address, int& error) {
  FileDescriptor socket(
      ::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  error = socket.is_open() ? 0 : errno;
  if (!socket.is_open()) return socket;
  enable(socket.fd(), IPPROTO_TCP, TCP_NODELAY);
  if (connect(socket.fd(), as_sockaddr(address.bytes), address.size) == 0) return socket;
  if (errno == EINPROGRESS) return socket;
  error = errno;
  return FileDescriptor();
}

FileDescriptor accept_next(const FileDescriptor& listener, Peer& peer, int& error) {
  sockaddr_storage from{};
  socklen_t size = sizeof from;
  FileDescriptor socket(
      accept4(listener.fd(), as_sockaddr(from), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
  error = socket.is_open() ? 0 : errno;
  if (!socket.is_open()) return socket;
  enable(socket.fd(), IPPROTO_TCP, TCP_NODELAY);
  enable_keepalive(socket.fd());
  peer = to_peer(from);
  return socket;
}

}  // namespace weir::net
