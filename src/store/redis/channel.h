#pragma once

#include <string_view>

#include "net/poller.h"
#include "store/redis/counts.h"
#include "store/redis/machine.h"
#include "store/redis/transport.h"
#include "store/redis/way.h"

namespace weir::store::redis {

// The connection to one server: a machine that knows what to say, and a transport that carries it.
class Channel final : public Peer, private Transport::Owner {
 public:
  // Who is told what happens on it.
  class Listener {
   public:
    // Before replies are read.
    virtual void on_heard(Nanos now) = 0;
    virtual void on_cut() = 0;

   protected:
    ~Listener() = default;
  };

  // `poller`, `counts`, `listener` and `guide`, if any, outlive it. Wants to connect.
  Channel(net::Poller& poller, const MachineOptions& options, ServerAddress address,
          LinkCounts& counts, const Log& log, Listener& listener, Guide* guide = nullptr);
  // Calls that are open fail.
  ~Channel() override;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  Machine& machine() override { return machine_; }
  const Machine& machine() const { return machine_; }
  void turn() override;
  void on_time(Nanos now) override;

  // ---- Instead of `turn`, for who looks for the server first: `turn_without_connecting`, and
  // ---- `connect_to` it if there is none and one is wanted.
  void turn_without_connecting();
  bool lacks_connection() const { return machine_.wants_connection() && transport_.is_idle(); }
  void connect_to(const Place& place);
  Place place() const { return {address_.host, address_.port}; }

 private:
  void on_connected() override;
  void on_bytes(std::string_view bytes) override;
  void on_writable() override;
  void on_disconnected(Failure failure, std::string_view why) override;

  void hang_up_if_wanted();
  void send();

  ServerAddress address_;
  LinkCounts& counts_;
  Listener& listener_;
  Machine machine_;
  Transport transport_;
};

// One server, by its address.
class Alone final : public Way {
 public:
  explicit Alone(std::unique_ptr<Channel> channel) : channel_(std::move(channel)) {}

  Channel& channel() { return *channel_; }

  void call(Call& call, Nanos now) override { channel_->machine().pass_on(call, false, now); }
  void turn(Nanos) override { channel_->turn(); }
  void on_time(Nanos now) override { channel_->on_time(now); }
  Nanos wake_at() const override { return channel_->machine().wake_at(); }
  bool is_ready() const override { return channel_->machine().is_ready(); }
  bool is_mistaken() const override { return channel_->machine().is_mistaken(); }
  void end() override { channel_->machine().end(); }

 private:
  const std::unique_ptr<Channel> channel_;
};

}  // namespace weir::store::redis
