#include "store/redis/transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/out_of_memory.h"

namespace weir::store::redis {

namespace {

std::vector<net::SocketAddress> unix_address(const std::string& path) {
  net::SocketAddress address;
  auto& at = reinterpret_cast<sockaddr_un&>(address.bytes);
  if (path.size() >= sizeof at.sun_path) return {};
  at.sun_family = AF_UNIX;
  std::memcpy(at.sun_path, path.data(), path.size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return {address};
}

void set(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof value);
}

// Sends small writes at once, and detects a server that vanished without closing the connection:
// after 15 s of silence, by 3 keep-alive probes 5 s apart.
void set_socket_options(int fd) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

std::string text_of(int error) { return std::generic_category().message(error); }

}  // namespace

std::string ServerAddress::shown() const {
  if (!path.empty()) return "unix://" + path;
  const bool is_v6 = host.find(':') != std::string::npos;
  return (tls ? "rediss://" : "redis://") + (is_v6 ? "[" + host + "]" : host) + ":" +
         std::to_string(port);
}

Transport::Transport(net::Poller& poller, const ServerAddress& address, Owner& owner)
    : poller_(poller), address_(address), owner_(owner) {
  poller_.add(resolver_.descriptor(), net::Interest::read, *this);
}

Transport::~Transport() {
  close();
  poller_.remove(resolver_.descriptor());
}

// ---- Connecting

void Transport::connect() {
  close();
  if (!address_.path.empty()) return try_addresses(unix_address(address_.path));
  auto numeric = net::numeric_address(address_.host, address_.port);
  if (!numeric.empty()) return try_addresses(std::move(numeric));
  phase_ = TransportPhase::looking_up;
  resolver_.start(address_.host, address_.port);
}

void Transport::on_looked_up() {
  const auto found = resolver_.result();
  if (!found || phase_ != TransportPhase::looking_up) return;
  if (!*found) return fail(found->error().message);
  try_addresses(std::move(**found));
}

void Transport::try_addresses(std::vector<net::SocketAddress> addresses) {
  addresses_ = std::move(addresses);
  tried_ = 0;
  why_ = "the path of a unix socket is too long";
  try_next();
}

void Transport::try_next() {
  while (tried_ < addresses_.size()) {
    const std::size_t index = (first_ + tried_++) % addresses_.size();
    if (begin(addresses_[index])) return;
  }
  fail(why_);
}

bool Transport::begin(const net::SocketAddress& address) {
  const int family = address.bytes.ss_family;
  net::FileDescriptor socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.is_open() && family != AF_UNIX) set_socket_options(socket.fd());
  const auto* where = reinterpret_cast<const sockaddr*>(&address.bytes);
  // EAGAIN is an error here: it means that the backlog of a unix socket is full, and epoll does not
  // report when that ends.
  if (!socket.is_open() ||
      (::connect(socket.fd(), where, address.size) != 0 && errno != EINPROGRESS)) {
    why_ = text_of(errno);
    return false;
  }
  stream_ = Stream(std::move(socket));
  phase_ = TransportPhase::connecting;
  poller_.add(stream_.fd(), net::Interest::write, *this);
  interest_ = net::Interest::write;
  return true;
}

void Transport::on_connect_done() {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(stream_.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error == 0) {
    sockaddr_storage peer{};
    socklen_t peer_size = sizeof peer;
    // Not connected yet: the event had another reason.
    if (getpeername(stream_.fd(), reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) return;
    return on_stream_connected();
  }
  why_ = text_of(error);
  stream_ = {};
  try_next();
}

void Transport::on_stream_connected() {
  // The next attempt starts with the address that accepted this connection.
  first_ = (first_ + tried_ - 1) % addresses_.size();
  if (address_.tls) {
    phase_ = TransportPhase::shaking_hands;
    if (!stream_.begin_tls(address_.tls, address_.host)) return fail(stream_.why());
    return shake_hands();
  }
  phase_ = TransportPhase::open;
  wait_for(net::Interest::read);
  owner_.on_connected();
}

void Transport::shake_hands() {
  switch (stream_.shake_hands()) {
    case Stream::Status::would_block:
      return wait_for(stream_.waits_to_write() ? net::Interest::write : net::Interest::read);
    case Stream::Status::failed:
      return fail(stream_.why());
    case Stream::Status::done:
      break;
  }
  phase_ = TransportPhase::open;
  wait_for(net::Interest::read);
  owner_.on_connected();
}

// ---- Bytes

void Transport::on_ready() {
  switch (phase_) {
    case TransportPhase::idle:
      return (void)resolver_.result();
    case TransportPhase::looking_up:
      return on_looked_up();
    case TransportPhase::connecting:
      return on_connect_done();
    case TransportPhase::shaking_hands:
      return shake_hands();
    case TransportPhase::open:
      return read();
  }
}

// A part of a reply may be lost, so the rest of the stream cannot be parsed.
void Transport::on_out_of_memory() noexcept {
  if (!catch_bad_alloc([this] { fail("out of memory while reading its replies"); })) close();
}

void Transport::read() {
  if (has_unsent_) owner_.on_writable();
  // Bytes that TLS has already decrypted do not make the socket readable: read until it would
  // block.
  while (phase_ == TransportPhase::open) {
    const Stream::Moved got = stream_.read(read_buffer_);
    if (got.status == Stream::Status::would_block) return;
    if (got.status == Stream::Status::failed) return fail(stream_.why());
    owner_.on_bytes({read_buffer_.data(), got.bytes});
    if (!stream_.has_tls()) return;
  }
}

std::size_t Transport::send(std::string_view bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const Stream::Moved moved = stream_.write(bytes.substr(sent));
    if (moved.status == Stream::Status::would_block) break;
    if (moved.status == Stream::Status::failed) {
      fail(stream_.why());
      return 0;
    }
    sent += moved.bytes;
  }
  has_unsent_ = sent < bytes.size();
  wait_for(has_unsent_ ? net::Interest::both : net::Interest::read);
  return sent;
}

// ---- The end

void Transport::fail(std::string why) {
  const CallFailure failure =
      stream_.is_mistake() ? CallFailure::misconfigured : CallFailure::unavailable;
  close();
  owner_.on_disconnected(failure, why);
}

void Transport::close() {
  if (phase_ == TransportPhase::looking_up) resolver_.cancel();
  // The next attempt starts after an address that did not accept the connection.
  if (phase_ == TransportPhase::connecting && !addresses_.empty()) {
    first_ = (first_ + tried_) % addresses_.size();
  }
  phase_ = TransportPhase::idle;
  stream_ = {};
  interest_ = net::Interest::none;
  has_unsent_ = false;
}

void Transport::wait_for(net::Interest interest) {
  if (interest == interest_) return;
  interest_ = interest;
  poller_.change(stream_.fd(), interest, *this);
}

}  // namespace weir::store::redis
