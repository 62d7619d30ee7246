#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string_view>
#include <vector>

#include "gateway/client_connection.h"
#include "gateway/http2_downstream.h"
#include "gateway/ip_address.h"
#include "net/byte_channel.h"
#include "net/protocol.h"
#include "net/timers.h"
#include "wire/h2.h"

namespace weir::gateway {

class GatewayWorker;

// A client connection that speaks HTTP/2: an exchange on each stream, concurrently. Each stream has
// its own share of buffer memory and its own timeouts, so that a slow one does not block the
// others. For the thread of its loop.
class Http2Connection final : public ClientConnection,
                              private net::ChannelOwner,
                              private wire::H2Handler {
 public:
  // Takes the channel, unless it throws.
  Http2Connection(GatewayWorker& worker, std::unique_ptr<net::ByteChannel>& channel,
                  const net::Peer& peer);
  ~Http2Connection() override;

  // To be called once, when the worker owns this. `input` has already been received.
  void begin(std::string_view input);

  void shut_down() override;
  void close() override { channel_->close(); }

  // ---- For Http2Downstream

  GatewayWorker& worker() { return worker_; }
  wire::Http2Server& machine() { return machine_; }
  const IpAddress& peer() const { return peer_; }
  bool has_tls() const { return channel_->stream().has_tls(); }
  // True if the stream may accept more of its response. If false, its
  // Http2Downstream::on_buffer_space is called when that may have changed.
  bool has_room(const wire::H2Stream& stream);

  // Closes the connection at once, without GOAWAY.
  void drop() noexcept;

  // Every event that may write to streams runs inside a batch. Batches nest; the outermost one
  // sends the output when it ends, because sending may end streams that callers still use.
  class OutputBatch {
   public:
    explicit OutputBatch(Http2Connection& connection) : connection_(connection) {
      ++connection_.batch_depth_;
    }
    ~OutputBatch() {
      // (While an exception propagates nothing is sent: its handler drops the connection.)
      if (connection_.batch_depth_ == 1 && std::uncaught_exceptions() == 0)
        connection_.end_batch_or_drop();
      --connection_.batch_depth_;
    }
    OutputBatch(const OutputBatch&) = delete;
    OutputBatch& operator=(const OutputBatch&) = delete;

   private:
    Http2Connection& connection_;
  };

 private:
  enum class Http2Timeout { none, idle, sending, goaway, lingering };

  // wire::H2Handler
  bool takes_parts(const wire::H2Stream&) override { return true; }
  std::size_t most_body(const wire::H2Stream&) override { return SIZE_MAX; }
  void on_request(wire::H2Stream& stream) override;
  void on_gone(wire::H2Stream& stream) override;

  // net::ChannelOwner
  void on_input(std::string_view input) override;
  void on_sent() override;
  void on_eof() override;
  void on_error(std::string_view why) override;
  void on_out_of_memory() noexcept override { drop(); }
  void on_shed() noexcept override;

  void receive(std::string_view input);
  void serve(std::int32_t id);
  void end_batch();
  void end_batch_or_drop() noexcept;
  void flush_output();
  void resume_blocked_streams();
  void update_interest();
  void set_timeout(Http2Timeout timeout);
  Nanos timeout_of(Http2Timeout timeout) const;
  std::uint64_t sent_bytes() const { return queued_bytes_ - channel_->unsent(); }
  void on_timeout();
  void linger();
  void end_all_exchanges() noexcept;

  GatewayWorker& worker_;
  const IpAddress peer_;
  std::unique_ptr<net::ByteChannel> channel_;
  net::Timer timer_;
  net::Timer header_timer_;
  Http2Timeout timeout_ = Http2Timeout::none;
  std::uint64_t queued_bytes_ = 0;   // bytes, handed to the channel
  std::uint64_t sent_at_timer_ = 0;  // bytes sent when the timer was set
  int batch_depth_ = 0;              // nesting depth
  bool streams_blocked_ = false;     // streams that wait for buffer space
  bool drained_ = false;
  std::vector<std::int32_t> ready_streams_;              // streams with new input
  std::vector<std::unique_ptr<Http2Downstream>> spare_;  // for reuse
  // Declared last: its streams own Http2Downstreams, which use the members above.
  wire::Http2Server machine_;
};

}  // namespace weir::gateway
