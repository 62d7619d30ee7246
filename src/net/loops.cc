#include "net/loops.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <thread>
#include <vector>

#include "net/connection.h"

namespace weir::net {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

using ReusePort = asio::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>;

// What all loops count together. Written when connections come and go, not with every message.
struct Shared {
  std::size_t most_connections = 0;
  std::atomic<std::uint64_t> accepted{0};
  std::atomic<std::uint64_t> turned_away{0};
  std::atomic<std::uint64_t> open{0};
};

// One thread, and everything that happens on it.
class Loop {
 public:
  explicit Loop(Shared& shared) : shared_(shared) {}

  error_code bind(const tcp::endpoint& endpoint, const Door& door, std::uint16_t& port) {
    Listener& listener = listeners_.emplace_back(Listener{tcp::acceptor(context_), door});
    error_code error;
    listener.acceptor.open(endpoint.protocol(), error);
    if (!error) listener.acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) listener.acceptor.set_option(ReusePort(true), error);
    if (!error) listener.acceptor.bind(endpoint, error);
    if (!error) port = listener.acceptor.local_endpoint(error).port();
    return error;
  }

  void start() {
    for (Listener& listener : listeners_) {
      listener.acceptor.listen(kBacklog);
      listener.acceptor.non_blocking(true);
      accept(listener);
    }
    tick();
    thread_ = std::thread([this] { context_.run(); });
  }

  // From another thread.
  void shut_down() {
    asio::post(context_, [this] {
      for (Listener& listener : listeners_) close(listener);
      shutting_down_ = true;
      // Those that end at once leave the list.
      const std::vector<Connection*> open = connections_.open;
      for (Connection* connection : open) connection->shut_down();
      tick();
    });
  }

  void end() {
    asio::post(context_, [this] { context_.stop(); });
    if (thread_.joinable()) thread_.join();
  }

  bool done() const { return done_.load(); }

 private:
  static constexpr int kBacklog = 4096;

  struct Listener {
    tcp::acceptor acceptor;
    const Door& door;
    std::unique_ptr<asio::steady_timer> pause{};
  };

  void accept(Listener& listener) {
    listener.acceptor.async_accept([this, &listener](const error_code& error, tcp::socket socket) {
      // (It may have been let in just before the door was closed.)
      if (!error) admit(std::move(socket), listener.door);
      if (!listener.acceptor.is_open()) return;
      error ? pause(listener) : accept(listener);
    });
  }

  // Out of descriptors, most likely: somebody has to leave first.
  void pause(Listener& listener) {
    listener.pause = std::make_unique<asio::steady_timer>(context_, std::chrono::milliseconds(100));
    listener.pause->async_wait([this, &listener](const error_code& error) {
      if (!error && listener.acceptor.is_open()) accept(listener);
    });
  }

  void admit(tcp::socket socket, const Door& door) {
    error_code error;
    const tcp::endpoint peer = socket.remote_endpoint(error);
    if (error) return;  // it has gone already
    socket.non_blocking(true, error);
    if (shared_.open.load(std::memory_order_relaxed) >= shared_.most_connections) {
      shared_.turned_away.fetch_add(1, std::memory_order_relaxed);
      socket.write_some(asio::buffer(door.too_many), error);
      return;
    }
    socket.set_option(tcp::no_delay(true), error);
    shared_.accepted.fetch_add(1, std::memory_order_relaxed);
    shared_.open.fetch_add(1, std::memory_order_relaxed);
    const Peer who{.address = peer.address().to_string(), .loopback = peer.address().is_loopback()};
    std::shared_ptr<Connection> connection(
        new Connection(std::move(socket), door, who, connections_), [this](Connection* gone) {
          delete gone;
          shared_.open.fetch_sub(1, std::memory_order_relaxed);
        });
    connection->start();
    if (shutting_down_) connection->shut_down();
  }

  // Whoever has been waiting to be let in is let in.
  void close(Listener& listener) {
    error_code error;
    for (;;) {
      tcp::socket socket = listener.acceptor.accept(error);
      if (error) break;
      admit(std::move(socket), listener.door);
    }
    listener.acceptor.close(error);
    if (listener.pause) listener.pause->cancel();
  }

  void tick() {
    timer_.expires_after(shutting_down_ ? std::chrono::milliseconds(10) : std::chrono::seconds(1));
    timer_.async_wait([this](const error_code& error) {
      if (error) return;
      connections_.second = second();
      for (Connection* connection : connections_.open) connection->check_patience();
      if (shutting_down_ && connections_.open.empty()) done_.store(true);
      tick();
    });
  }

  static int second() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<int>(std::chrono::floor<std::chrono::seconds>(now).count());
  }

  Shared& shared_;
  Connections connections_{
      .open = {}, .second = second()};  // outlives the context, which has what refers to it
  asio::io_context context_{1};
  asio::steady_timer timer_{context_};
  std::deque<Listener> listeners_;
  std::thread thread_;
  bool shutting_down_ = false;
  std::atomic<bool> done_{false};
};

std::string where(const std::string& host, std::uint16_t port) {
  return host + ":" + std::to_string(port);
}

// Loops share their ports, and the system would let another process share them, too. One bind
// without sharing shows whether somebody is there.
error_code nobody_else(const tcp::endpoint& endpoint) {
  asio::io_context context;
  tcp::acceptor probe(context);
  error_code error;
  probe.open(endpoint.protocol(), error);
  if (!error) probe.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) probe.bind(endpoint, error);
  if (!error) probe.listen(1, error);
  return error;
}

}  // namespace

struct Loops::Impl {
  Shared shared;
  std::deque<Door> doors;
  std::vector<tcp::endpoint> bound;
  std::deque<Loop> loops;
  bool started = false;
};

Loops::Loops(const LoopOptions& options) : impl_(std::make_unique<Impl>()) {
  impl_->shared.most_connections = options.most_connections;
  for (int i = 0; i < options.threads; ++i) impl_->loops.emplace_back(impl_->shared);
}

Loops::~Loops() { stop(std::chrono::milliseconds(0)); }

Result<std::uint16_t, Error> Loops::bind(const std::string& host, std::uint16_t port, Door door) {
  error_code error;
  asio::io_context context;
  const auto found =
      tcp::resolver(context).resolve(host, std::to_string(port), tcp::resolver::passive, error);
  if (error || found.empty()) {
    return Error{"cannot listen on " + where(host, port) + ": there is no such address"};
  }
  tcp::endpoint endpoint = found.begin()->endpoint();
  if (port != 0) error = nobody_else(endpoint);
  // (What is bound and does not listen yet is in nobody's way.)
  const bool ours = std::ranges::find(impl_->bound, endpoint) != impl_->bound.end();
  if (ours) error = asio::error::address_in_use;
  impl_->doors.push_back(std::move(door));
  for (Loop& loop : impl_->loops) {
    if (!error) error = loop.bind(endpoint, impl_->doors.back(), port);
    endpoint.port(port);
  }
  if (error) return Error{"cannot listen on " + where(host, port) + ": " + error.message()};
  impl_->bound.push_back(endpoint);
  return port;
}

void Loops::start() {
  impl_->started = true;
  for (Loop& loop : impl_->loops) loop.start();
}

void Loops::stop(std::chrono::milliseconds grace) {
  if (!impl_->started) return;
  impl_->started = false;
  for (Loop& loop : impl_->loops) loop.shut_down();
  const auto until = std::chrono::steady_clock::now() + grace;
  const auto all_done = [&] {
    for (const Loop& loop : impl_->loops) {
      if (!loop.done()) return false;
    }
    return true;
  };
  while (!all_done() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  for (Loop& loop : impl_->loops) loop.end();
}

LoopCounts Loops::counts() const {
  const Shared& shared = impl_->shared;
  return {.accepted = shared.accepted.load(std::memory_order_relaxed),
          .turned_away = shared.turned_away.load(std::memory_order_relaxed),
          .open = shared.open.load(std::memory_order_relaxed)};
}

}  // namespace weir::net
