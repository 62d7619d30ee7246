#pragma once

#include <string_view>

#include "net/poller.h"
#include "store/redis/connection_fsm.h"
#include "store/redis/link_counts.h"
#include "store/redis/router.h"
#include "store/redis/transport.h"

namespace weir::store::redis {

// A connection to one server over a socket: a ConnectionFsm for the protocol, and a Transport for
// the bytes. Not thread-safe.
class SocketConnection final : public ServerConnection, private Transport::Owner {
 public:
  class Observer {
   public:
    // Bytes were received; called before their replies are handled.
    virtual void on_receive(Nanos now) = 0;
    virtual void on_disconnect() = 0;

   protected:
    ~Observer() = default;
  };

  // `poller`, `counts`, `observer` and `handler`, if any, outlive it. Wants to connect.
  SocketConnection(net::Poller& poller, const ConnectionOptions& options, ServerAddress address,
                   LinkCounts& counts, const LogCallback& log, Observer& observer,
                   RedirectHandler* handler = nullptr);
  // Fails all pending calls.
  ~SocketConnection() override;
  SocketConnection(const SocketConnection&) = delete;
  SocketConnection& operator=(const SocketConnection&) = delete;

  ConnectionFsm& fsm() override { return fsm_; }
  const ConnectionFsm& fsm() const { return fsm_; }
  void pump() override;
  void on_timer(Nanos now) override;

  // ---- Instead of `pump`, for an owner that first has to find out the server's address: call
  // ---- `pump_without_connecting`, and then `connect_to` if `lacks_connection`.
  void pump_without_connecting();
  bool lacks_connection() const { return fsm_.wants_connection() && transport_.is_idle(); }
  void connect_to(const HostPort& server);
  HostPort server() const { return {address_.host, address_.port}; }

 private:
  void on_connected() override;
  void on_bytes(std::string_view bytes) override;
  void on_writable() override;
  void on_disconnected(CallFailure failure, std::string_view why) override;

  void close_if_unwanted();
  void send();

  ServerAddress address_;
  LinkCounts& counts_;
  Observer& observer_;
  ConnectionFsm fsm_;
  Transport transport_;
};

// Routes all calls to one server with a fixed address.
class SingleServer final : public Router {
 public:
  explicit SingleServer(std::unique_ptr<SocketConnection> channel) : channel_(std::move(channel)) {}

  SocketConnection& channel() { return *channel_; }

  void call(RedisCall& call, Nanos now) override { channel_->fsm().pass_on(call, false, now); }
  void pump(Nanos) override { channel_->pump(); }
  void on_timer(Nanos now) override { channel_->on_timer(now); }
  Nanos wake_at() const override { return channel_->fsm().wake_at(); }
  bool is_ready() const override { return channel_->fsm().is_ready(); }
  bool is_misconfigured() const override { return channel_->fsm().is_misconfigured(); }
  void end() override { channel_->fsm().end(); }

 private:
  const std::unique_ptr<SocketConnection> channel_;
};

}  // namespace weir::store::redis
