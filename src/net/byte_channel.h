#pragma once

#include <string>
#include <string_view>

#include "net/loop_context.h"
#include "net/socket_stream.h"
#include "net/sockets.h"

namespace weir::net {

// Receives the events of a channel. May close the channel in one of these functions, but not
// destroy it: destruction is deferred to the end of the iteration (LoopContext::defer_delete).
class ChannelOwner {
 public:
  // An outgoing connection is established, with TLS if it has that.
  virtual void on_connected() {}
  // The owner consumes or copies all of `input`: it is valid only during the call.
  virtual void on_input(std::string_view input) = 0;
  // All output is sent, after some of it had to be buffered.
  virtual void on_sent() = 0;
  // The peer has shut down its write side (half-close). It may still read.
  virtual void on_eof() = 0;
  // The connection is broken in both directions; `why` is for people.
  virtual void on_error(std::string_view why) = 0;
  // An allocation has failed while an event was handled: the owner closes the channel.
  virtual void on_out_of_memory() noexcept = 0;
  // All connections together hold too much memory, and this one is among the largest: the owner
  // ends it, and may send the reason. Not called while an event is handled.
  virtual void on_shed() noexcept { on_out_of_memory(); }

 protected:
  ~ChannelOwner() = default;
};

// A full-duplex connection. Input is delivered only while the owner wants it, so that a proxy stops
// reading when its other side is slow (backpressure). Output that the socket does not accept is
// buffered; the owner checks unsent() before it produces more. The buffer counts as memory of the
// connection, together with the bytes that the owner holds for it.
// For the loop's thread.
class ByteChannel final : public EventHandler, public MemoryHolder {
 public:
  // Takes over an established connection. If epoll refuses the descriptor, the channel is closed at
  // once; so is an outgoing one.
  ByteChannel(LoopContext& ground, SocketStream stream, ChannelOwner& owner);
  // Connects to `to`, with TLS if a context is given. The owner is told the result later, never
  // before the constructor returns.
  ByteChannel(LoopContext& ground, const SocketAddress& to, const TlsContext& context,
              const std::string& host, ChannelOwner& owner);
  ~ByteChannel();
  ByteChannel(const ByteChannel&) = delete;
  ByteChannel& operator=(const ByteChannel&) = delete;

  // Replaces the owner.
  void use_owner(ChannelOwner& owner) { owner_ = &owner; }

  // Pauses or resumes reading; at first it reads. A hangup of the peer is reported as on_eof even
  // while reading is paused.
  void want_input(bool wanted);
  // From now on all input is delivered before on_eof and before an error in sending, even if
  // reading is paused for a while. For a peer that may close as soon as it has sent everything,
  // such as a server. Not for a client: one that hangs up does not wait for responses.
  void deliver_all_input() { delivers_all_input_ = true; }
  // Sends what the socket accepts at once and buffers the rest. The next event reports a failure.
  void send(std::string_view bytes);
  std::size_t unsent() const { return unsent_.size() - sent_; }
  // Shuts down the write side once all output is sent.
  void finish();
  void close() noexcept;
  // Sets the bytes that the owner holds for this connection.
  void count_owner_memory(std::size_t bytes) {
    if (owner_memory_ != bytes) {
      owner_memory_ = bytes;
      count_memory();
    }
  }
  // Closes with a TCP reset, so that the peer notices that the message is incomplete.
  void abort() noexcept;
  bool is_open() const { return stream_.is_open(); }
  const SocketStream& stream() const { return stream_; }

  void on_ready() override;
  void on_out_of_memory() noexcept override;
  void shed() noexcept override { owner_->on_shed(); }

 private:
  void count_memory();
  void serve();
  void connect();
  void read();
  void look();
  void read_after_failed_send();
  void stop_watching();
  void send_on();
  void fail(std::string_view why);
  void watch();
  Interest wanted() const;

  LoopContext& ground_;
  SocketStream stream_;
  ChannelOwner* owner_;
  std::string unsent_;
  std::size_t sent_ = 0;  // bytes at the front of `unsent_` that are sent
  std::size_t owner_memory_ = 0;
  Interest interest_ = Interest::read;
  bool connecting_ = false;
  bool wants_input_ = true;
  bool delivers_all_input_ = false;
  bool unwatched_ = false;
  bool told_end_ = false;  // on_eof was called, or reading has failed
  bool finishes_ = false;
  bool finished_ = false;
  bool failed_ = false;  // sending has failed; the owner is not told yet
};

}  // namespace weir::net
