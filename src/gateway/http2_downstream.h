#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "gateway/downstream.h"
#include "gateway/exchange.h"
#include "net/loop_context.h"
#include "net/timers.h"
#include "wire/h2.h"

namespace weir::gateway {

class Http2Connection;

// The client of an exchange on one HTTP/2 stream. Reused for other streams of its connection.
class Http2Downstream final : public wire::StreamData,
                              public net::DeferredDelete,
                              private Downstream {
 public:
  explicit Http2Downstream(Http2Connection& connection);

  // A request whose header section is complete, or invalid. The stream lives until on_gone.
  void begin(wire::H2Stream& stream);
  // More of the request has come.
  void on_input();
  // There may be buffer space for more of the response.
  void on_buffer_space();
  // The stream or the connection has ended.
  void on_gone();

 private:
  enum class StreamTimeout { none, body, sending };

  const IpAddress& peer() const override;
  bool has_tls() const override;
  void send_continue() override;
  void send_interim(const ResponseHead& head) override;
  void send_head(const ResponseHead& head) override;
  void send_body(std::string_view body) override;
  void send_end(std::string_view trailers) override;
  void flush() override {}
  bool has_room() override;
  bool has_unsent() const override { return stream_->unsent() > 0; }
  bool must_drain_request() const override { return false; }
  void on_progress() override;
  void on_exchange_end(bool keep_alive) override;
  void abort() override;
  void drop() noexcept override;

  void reject();
  void forward_input();
  void forward_body();
  void update_timeout();
  void set_timeout(StreamTimeout timeout);
  std::uint64_t sent_bytes() const { return queued_bytes_ - stream_->unsent(); }
  void on_timeout();

  Http2Connection& connection_;
  wire::H2Stream* stream_ = nullptr;  // null: it has ended
  net::Timer timer_;
  StreamTimeout timeout_ = StreamTimeout::none;
  std::uint64_t queued_bytes_ = 0;   // bytes of the response body
  std::uint64_t sent_at_timer_ = 0;  // bytes sent when the timer was set
  bool exchange_over_ = false;       // the exchange is over; the stream may still have output
  bool has_body_ = false;            // of the response
  bool blocked_ = false;             // for buffer space
  bool forwarding_ = false;          // guards against nested calls while the body is forwarded
  Exchange exchange_;
};

}  // namespace weir::gateway
