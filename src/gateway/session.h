#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "gateway/address.h"
#include "gateway/exchange.h"
#include "net/channel.h"
#include "net/ground.h"
#include "wire/http1.h"

namespace weir::gateway {

class House;

// A client's connection: one exchange after the other.
class Session final : public net::Mortal, private net::ChannelOwner {
 public:
  Session(House& house, net::Stream stream, const net::Peer& peer);

  net::Channel& channel() { return channel_; }
  const Address& peer() const { return peer_; }
  bool has_tls() const { return channel_.stream().has_tls(); }

  // By the exchange: it is over, and the connection may be used for another one if `keeps`.
  void on_exchange_over(bool keeps);
  // It goes on, and may want more of the request, or none for now.
  void go_on();
  // The connection ends at once: what was sent is not whole.
  void abort();

  // Nobody comes any more: ends it when it has nothing to do.
  void shut_down();

  std::size_t place = 0;  // in the house

 private:
  enum class State { head, exchange, lingering };

  void on_input(std::string_view input) override;
  void on_sent() override;
  void on_end() override;
  void on_broken(std::string_view why) override;

  void run();
  bool read_head();
  void feed();
  void arrange();
  void arm(Nanos patience);
  void on_time();
  void refuse(int status, std::string_view reason);
  void linger();
  void leave();

  House& house_;
  const net::Peer name_;
  const Address peer_;
  net::Channel channel_;
  wire::HttpParser parser_;
  std::string kept_;  // has come, and is not used up
  net::Timer timer_;
  std::size_t unsent_then_ = 0;  // when the timer was set
  State state_ = State::head;
  bool running_ = false;
  bool late_head_ = false;  // the timer is for the rest of a head
  Exchange exchange_;
};

}  // namespace weir::gateway
