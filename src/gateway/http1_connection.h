#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/client_connection.h"
#include "gateway/downstream.h"
#include "gateway/exchange.h"
#include "gateway/ip_address.h"
#include "net/byte_channel.h"
#include "net/loop_context.h"
#include "wire/http1.h"

namespace weir::gateway {

class GatewayWorker;

// A client connection that speaks HTTP/1.x: serves one exchange after the other (pipelined requests
// wait in the buffer). For the thread of its loop.
class Http1Connection final : public ClientConnection,
                              private Downstream,
                              private net::ChannelOwner {
 public:
  Http1Connection(GatewayWorker& worker, net::SocketStream stream, const net::Peer& peer);

  void shut_down() override;
  void close() override { channel_->close(); }

 private:
  enum class Http1State { head, exchange, lingering };
  enum class Http1Timeout { none, head, idle, body, sending, lingering };

  // Downstream
  const IpAddress& peer() const override { return peer_; }
  bool has_tls() const override { return channel_->stream().has_tls(); }
  void send_continue() override;
  void send_interim(const ResponseHead& head) override;
  void send_head(const ResponseHead& head) override;
  void send_body(std::string_view body) override;
  void send_end(std::string_view trailers) override;
  void flush() override;
  bool has_room() override;
  bool has_unsent() const override { return channel_->unsent() > 0; }
  bool must_drain_request() const override { return true; }
  void on_progress() override;
  void on_exchange_end(bool keep_alive) override;
  void abort() override;
  void drop() noexcept override { close_now(); }

  // net::ChannelOwner
  void on_input(std::string_view input) override;
  void on_sent() override;
  void on_eof() override;
  void on_error(std::string_view why) override;
  void on_out_of_memory() noexcept override { close_now(); }
  void on_shed() noexcept override;

  void parse_requests();
  bool matches_preface() const;
  bool has_preface_line() const;
  void switch_to_http2();
  void start_head_timeout();
  bool parse_head();
  void forward_body();
  void update_interest();
  void set_timeout(Http1Timeout timeout);
  Nanos timeout_of(Http1Timeout timeout) const;
  void write(std::string_view bytes);
  std::uint64_t sent_bytes() const { return queued_bytes_ - channel_->unsent(); }
  void on_timeout();
  void reject(int status, std::string_view reason);
  void linger();
  void close_now() noexcept;
  std::size_t memory() const;

  GatewayWorker& worker_;
  const net::Peer net_peer_;
  const IpAddress peer_;
  std::unique_ptr<net::ByteChannel> channel_;
  wire::HttpParser parser_;
  std::string input_;   // received, not consumed yet
  std::string output_;  // collected, so that one write sends all of it
  net::Timer timer_;
  Http1Timeout timeout_ = Http1Timeout::none;
  std::uint64_t queued_bytes_ = 0;   // bytes, handed to the channel
  std::uint64_t sent_at_timer_ = 0;  // bytes sent when the timer was set
  Http1State state_ = Http1State::head;
  bool parsing_ = false;
  bool forwarding_ = false;
  bool head_started_ = false;    // the first bytes of a head have come
  bool version_unknown_ = true;  // nothing was parsed yet: it may be HTTP/2
  bool chunked_ = false;         // of the response
  bool is_tunnel_ = false;       // the response switched protocols (101)
  bool half_closed_ = false;     // half-closed by the client, while input is still buffered
  bool keep_alive_ = true;       // the connection is reusable after this exchange
  Exchange exchange_;
};

}  // namespace weir::gateway
