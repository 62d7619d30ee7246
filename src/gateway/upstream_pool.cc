#include "gateway/upstream_pool.h"

#include <sys/socket.h>

#include <cerrno>

#include "base/out_of_memory.h"

namespace weir::gateway {

namespace {

using Clock = std::chrono::steady_clock;

// Shorter than the keep-alive timeout of most servers, so that a server rarely closes a connection
// just as a request is sent on it.
constexpr std::chrono::seconds kMaxIdleTime{55};

}  // namespace

UpstreamConnection::UpstreamConnection(net::LoopContext& loop, std::shared_ptr<Backend> backend,
                                       UpstreamServer& server, net::ChannelOwner& owner)
    : backend_(std::move(backend)),
      server_(server),
      channel_(loop, server.address(), server.upstream().tls ? backend_->tls() : net::TlsContext{},
               server.upstream().host, owner) {
  // Many servers close after the response. All of it is read first, also if the client takes it
  // slowly.
  channel_.deliver_all_input();
  server_.in_flight.fetch_add(1, std::memory_order_relaxed);
  server_.metrics().connections.fetch_add(1, std::memory_order_relaxed);
}

// True if nothing has come since the last response; it would be taken for the next one (response
// desynchronisation). (Pending TLS bytes need not be a response: the channel reads them.)
bool UpstreamConnection::is_reusable() {
  if (!channel_.is_open()) return false;
  char byte = 0;
  const ssize_t count = recv(channel_.stream().fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
  return count > 0 && channel_.stream().has_tls();
}

void UpstreamConnection::start_use(net::ChannelOwner& owner) {
  in_use_ = 1;
  reused_ = true;
  server_.in_flight.fetch_add(1, std::memory_order_relaxed);
  channel_.use_owner(owner);
}

void UpstreamConnection::make_idle() {
  server_.in_flight.fetch_sub(in_use_, std::memory_order_relaxed);
  in_use_ = 0;
  idle_since_ = Clock::now();
  channel_.use_owner(*this);
  channel_.want_input(true);
}

UpstreamPool::~UpstreamPool() {
  for (auto& [server, connections] : idle_) {
    for (auto& connection : connections) close(std::move(connection));
  }
}

std::unique_ptr<UpstreamConnection> UpstreamPool::acquire(const std::shared_ptr<Backend>& backend,
                                                          UpstreamServer& server, bool fresh,
                                                          net::ChannelOwner& owner) {
  auto& idle = idle_[&server];
  while (!fresh && !idle.empty()) {
    std::unique_ptr<UpstreamConnection> connection = std::move(idle.back());
    idle.pop_back();
    if (!connection->is_reusable()) {
      close(std::move(connection));
      continue;
    }
    connection->start_use(owner);
    return connection;
  }
  auto connection = std::make_unique<UpstreamConnection>(loop_, backend, server, owner);
  return connection->channel().is_open() ? std::move(connection) : nullptr;
}

void UpstreamPool::release(std::unique_ptr<UpstreamConnection> connection) {
  // (The connection may be in the middle of an event: it must not be destroyed here.)
  const bool released = catch_bad_alloc([&] {
    auto& idle = idle_[&connection->server()];
    if (!connection->channel().is_open() ||
        idle.size() >= connection->backend_->service().idle_connections) {
      return;
    }
    idle.emplace_back();  // room for it, or an exception
    connection->make_idle();
    idle.back() = std::move(connection);
  });
  if (!released || connection) close(std::move(connection));
}

void UpstreamPool::close(std::unique_ptr<UpstreamConnection> connection) {
  connection->channel().close();
  loop_.defer_delete(std::move(connection));
}

void UpstreamPool::close_expired() {
  const auto now = Clock::now();
  for (auto& [server, connections] : idle_) {
    for (auto& connection : connections) {
      if (!connection->channel().is_open() || now - connection->idle_since_ > kMaxIdleTime)
        close(std::move(connection));
    }
    std::erase(connections, nullptr);
  }
  std::erase_if(idle_, [](const auto& each) { return each.second.empty(); });
}

}  // namespace weir::gateway
