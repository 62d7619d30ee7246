#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/time.h"
#include "store/redis/call.h"
#include "store/redis/machine.h"

namespace weir::store::redis {

// Where a server of several is.
struct Place {
  std::string host{};
  std::uint16_t port = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

// One of several servers: its machine, and what carries the bytes.
class Peer {
 public:
  virtual ~Peer() = default;
  virtual Machine& machine() = 0;
  // Connects, sends and hangs up as the machine wants it.
  virtual void turn() = 0;
  virtual void on_time(Nanos now) { machine().on_time(now); }
};

// The guide outlives the peer.
using MakePeer = std::function<std::unique_ptr<Peer>(const Place& place, Guide& guide, Nanos now)>;

// Which server a call is sent to. For one thread.
class Way {
 public:
  virtual ~Way() = default;

  // `call` has its deadline, and must live until it is told its end, which may be before this
  // returns.
  virtual void call(Call& call, Nanos now) = 0;
  // To be called when something may have changed: sends what is to be sent.
  virtual void turn(Nanos now) = 0;
  virtual void on_time(Nanos now) = 0;
  // When `on_time` should be called; kForever for never.
  virtual Nanos wake_at() const = 0;
  // Whether calls would be sent at once.
  virtual bool is_ready() const = 0;
  // Whether they would fail, as somebody has to put something right.
  virtual bool is_mistaken() const = 0;
  // Tells all calls that they have failed. None may be made any more.
  virtual void end() = 0;
};

}  // namespace weir::store::redis
