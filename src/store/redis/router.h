#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/time.h"
#include "store/redis/connection_fsm.h"
#include "store/redis/redis_call.h"

namespace weir::store::redis {

// The address of one of several servers.
struct HostPort {
  std::string host{};
  std::uint16_t port = 0;
  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// A connection to one of several servers: the protocol's state machine, and the transport of bytes.
class ServerConnection {
 public:
  virtual ~ServerConnection() = default;
  virtual ConnectionFsm& fsm() = 0;
  // Connects, sends and disconnects as the state machine demands.
  virtual void pump() = 0;
  virtual void on_timer(Nanos now) { fsm().on_timer(now); }
};

// The handler outlives the connection.
using MakeServerConnection = std::function<std::unique_ptr<ServerConnection>(
    const HostPort& place, RedirectHandler& guide, Nanos now)>;

// Chooses the server for each call. Not thread-safe: it belongs to the thread of its link.
class Router {
 public:
  virtual ~Router() = default;

  // `call.route` has its deadline. The call must live until it ends, which may be before this
  // returns.
  virtual void call(RedisCall& call, Nanos now) = 0;
  // Called after every change: sends pending commands, connects and disconnects.
  virtual void pump(Nanos now) = 0;
  virtual void on_timer(Nanos now) = 0;
  // Time at which `on_timer` should be called; kForever for never.
  virtual Nanos wake_at() const = 0;
  // True if a call would be sent at once.
  virtual bool is_ready() const = 0;
  // True if calls fail because of an error that an operator has to fix.
  virtual bool is_misconfigured() const = 0;
  // Fails all pending calls. No call may be made any more.
  virtual void end() = 0;
};

}  // namespace weir::store::redis
