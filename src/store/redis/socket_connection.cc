#include "store/redis/socket_connection.h"

#include <utility>

#include "store/redis/monotonic_now.h"

namespace weir::store::redis {

SocketConnection::SocketConnection(net::Poller& poller, const ConnectionOptions& options,
                                   ServerAddress address, LinkCounts& counts,
                                   const LogCallback& log, Observer& observer,
                                   RedirectHandler* handler)
    : address_(std::move(address)),
      counts_(counts),
      observer_(observer),
      fsm_(options, counts, log, monotonic_now(), handler),
      transport_(poller, address_, *this) {}

SocketConnection::~SocketConnection() { fsm_.end(); }

// Sending may change whether the state machine wants a connection, and the other way round.
void SocketConnection::pump() {
  if (lacks_connection()) transport_.connect();
  pump_without_connecting();
  if (lacks_connection()) transport_.connect();
  close_if_unwanted();
}

// After this timer the state machine may want a new connection. Close the old one first: otherwise
// it would pass for the new one, and the handshake would wait until it times out.
void SocketConnection::on_timer(Nanos now) {
  close_if_unwanted();
  fsm_.on_timer(now);
}

void SocketConnection::pump_without_connecting() {
  close_if_unwanted();
  send();
  close_if_unwanted();
}

void SocketConnection::connect_to(const HostPort& server) {
  address_.host = server.host;
  address_.port = server.port;
  fsm_.rename(address_.shown());
  transport_.connect();
}

// Also after an attempt that failed at once.
void SocketConnection::close_if_unwanted() {
  if (!fsm_.wants_connection() && !transport_.is_idle()) transport_.close();
}

void SocketConnection::send() {
  const std::string_view unsent = fsm_.unsent();
  if (unsent.empty() || !transport_.is_open()) return;
  if (fsm_.is_ready()) counts_.flushes.add();
  const std::size_t sent = transport_.send(unsent);
  if (transport_.is_open()) fsm_.on_sent(sent);
}

// ---- The transport

void SocketConnection::on_connected() { fsm_.on_connected(monotonic_now()); }

void SocketConnection::on_bytes(std::string_view bytes) {
  const Nanos now = monotonic_now();
  observer_.on_receive(now);
  fsm_.on_bytes(bytes, now);
}

void SocketConnection::on_writable() { send(); }

void SocketConnection::on_disconnected(CallFailure failure, std::string_view why) {
  observer_.on_disconnect();
  fsm_.on_disconnected(why, monotonic_now(), failure);
}

}  // namespace weir::store::redis
