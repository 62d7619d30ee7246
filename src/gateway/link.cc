#include "gateway/link.h"

#include <sys/socket.h>

#include <cerrno>

#include "base/out_of_memory.h"

namespace weir::gateway {

namespace {

using Clock = std::chrono::steady_clock;

// Less than most servers wait, so that they are not the ones to end it.
constexpr std::chrono::seconds kLongestRest{55};

}  // namespace

UpstreamLink::UpstreamLink(net::Ground& ground, std::shared_ptr<Backend> backend, Server& server,
                           net::ChannelOwner& user)
    : backend_(std::move(backend)),
      server_(server),
      channel_(ground, server.address(),
               server.upstream().tls ? backend_->tls() : net::TlsContext{}, server.upstream().host,
               user) {
  // Many servers end the connection behind an answer, which clients may take slowly.
  channel_.hear_out();
  server_.in_flight.fetch_add(1, std::memory_order_relaxed);
  server_.counts().connections.fetch_add(1, std::memory_order_relaxed);
}

// Whether nothing has come since the last answer: it would be taken for the next one. (What comes
// with TLS need not be an answer, and its loop reads it.)
bool UpstreamLink::is_silent() {
  if (!channel_.is_open()) return false;
  char byte = 0;
  const ssize_t count = recv(channel_.stream().fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
  return count > 0 && channel_.stream().has_tls();
}

void UpstreamLink::use(net::ChannelOwner& user) {
  in_use_ = 1;
  reused_ = true;
  server_.in_flight.fetch_add(1, std::memory_order_relaxed);
  channel_.use_owner(user);
}

void UpstreamLink::rest() {
  server_.in_flight.fetch_sub(in_use_, std::memory_order_relaxed);
  in_use_ = 0;
  since_ = Clock::now();
  channel_.use_owner(*this);
  channel_.want_input(true);
}

Links::~Links() {
  for (auto& [server, links] : idle_) {
    for (auto& link : links) end(std::move(link));
  }
}

std::unique_ptr<UpstreamLink> Links::get(const std::shared_ptr<Backend>& backend, Server& server,
                                         bool fresh, net::ChannelOwner& user) {
  auto& idle = idle_[&server];
  while (!fresh && !idle.empty()) {
    std::unique_ptr<UpstreamLink> link = std::move(idle.back());
    idle.pop_back();
    if (!link->is_silent()) {
      end(std::move(link));
      continue;
    }
    link->use(user);
    return link;
  }
  auto link = std::make_unique<UpstreamLink>(ground_, backend, server, user);
  return link->channel().is_open() ? std::move(link) : nullptr;
}

void Links::keep(std::unique_ptr<UpstreamLink> link) {
  // (The link may be in the middle of an event: it must not be destroyed here.)
  const bool kept = with_memory([&] {
    auto& idle = idle_[&link->server()];
    if (!link->channel().is_open() || idle.size() >= link->backend_->service().idle_connections) {
      return;
    }
    idle.emplace_back();  // room for it, or an exception
    link->rest();
    idle.back() = std::move(link);
  });
  if (!kept || link) end(std::move(link));
}

void Links::end(std::unique_ptr<UpstreamLink> link) {
  link->channel().close();
  ground_.bury(std::move(link));
}

void Links::sweep() {
  const auto now = Clock::now();
  for (auto& [server, links] : idle_) {
    for (auto& link : links) {
      if (!link->channel().is_open() || now - link->since_ > kLongestRest) end(std::move(link));
    }
    std::erase(links, nullptr);
  }
  std::erase_if(idle_, [](const auto& each) { return each.second.empty(); });
}

}  // namespace weir::gateway
