#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/address.h"
#include "gateway/client_side.h"
#include "gateway/exchange.h"
#include "gateway/visitor.h"
#include "net/channel.h"
#include "net/ground.h"
#include "wire/http1.h"

namespace weir::gateway {

class House;

// A client's connection that speaks HTTP/1: one exchange after the other.
class Session final : public Visitor, private ClientSide, private net::ChannelOwner {
 public:
  Session(House& house, net::Stream stream, const net::Peer& peer);

  void shut_down() override;
  void close() override { channel_->close(); }

 private:
  enum class State { head, exchange, lingering };
  enum class Wait { nothing, head, idle, body, sending, lingering };

  // Of the exchange.
  const Address& peer() const override { return peer_; }
  bool has_tls() const override { return channel_->stream().has_tls(); }
  void welcome() override;
  void hint(const AnswerHead& head) override;
  void start(const AnswerHead& head) override;
  void send(std::string_view body) override;
  void finish(std::string_view trailers) override;
  void flush() override;
  bool has_room() override;
  bool has_unsent() const override { return channel_->unsent() > 0; }
  bool reads_to_the_end() const override { return true; }
  void go_on() override;
  void over(bool keeps) override;
  void abort() override;
  void drop() noexcept override { leave(); }

  // Of the connection.
  void on_input(std::string_view input) override;
  void on_sent() override;
  void on_end() override;
  void on_broken(std::string_view why) override;
  void on_out_of_memory() noexcept override { leave(); }
  void on_shed() noexcept override;

  void run();
  bool may_be_http2() const;
  bool is_http2() const;
  void hand_over();
  void wait_for_head();
  bool read_head();
  void feed();
  void arrange();
  void wait_for(Wait what);
  Nanos patience(Wait what) const;
  void say(std::string_view words);
  std::uint64_t taken() const { return said_ - channel_->unsent(); }
  void on_time();
  void refuse(int status, std::string_view reason);
  void linger();
  void leave() noexcept;
  std::size_t memory() const;

  House& house_;
  const net::Peer name_;
  const Address peer_;
  std::unique_ptr<net::Channel> channel_;
  wire::HttpParser parser_;
  std::string kept_;     // has come, and is not used up
  std::string to_send_;  // in one piece
  net::Timer timer_;
  Wait wait_ = Wait::nothing;
  std::uint64_t said_ = 0;        // bytes, to the connection
  std::uint64_t taken_then_ = 0;  // of them, when the timer was set
  State state_ = State::head;
  bool running_ = false;
  bool feeding_ = false;
  bool late_head_ = false;  // some of a head has come
  bool fresh_ = true;       // nothing was understood yet: it may be HTTP/2
  bool chunked_ = false;    // the answer
  bool tunnel_ = false;     // behind it, something else is spoken
  bool ended_ = false;      // the client says nothing more behind what is kept
  bool keeps_ = true;       // another request can come behind it
  Exchange exchange_;
};

}  // namespace weir::gateway
