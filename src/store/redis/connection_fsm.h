#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ring_buffer.h"
#include "base/time.h"
#include "store/redis/handshake.h"
#include "store/redis/link_counts.h"
#include "store/redis/redis_call.h"
#include "wire/resp_reply.h"

namespace weir::store::redis {

struct ConnectionOptions {
  LoginOptions login{};
  std::string server = "redis";  // its URL in messages, without a password

  Nanos timeout = std::chrono::milliseconds{50};       // of a call, from its start
  Nanos connect_timeout = std::chrono::seconds{1};     // until the connection is ready for calls
  Nanos max_silence = std::chrono::seconds{1};         // with calls in flight; then reconnect
  Nanos min_back_off = std::chrono::milliseconds{10};  // before the first attempt to reconnect
  Nanos max_back_off = std::chrono::seconds{2};
  Nanos probe_interval = std::chrono::milliseconds{100};  // while the circuit breaker is open
  std::uint32_t breaker_threshold = 5;                    // consecutive timeouts that open it

  std::size_t max_pending_calls =
      16 << 10;  // without a reply yet, including those that have timed out
  std::size_t max_unsent_bytes = 8 << 20;  // not sent yet
  std::uint64_t seed = 1;                  // of the jitter
  wire::RespReplyBounds reply_room{};
};

// Handles what one of several servers cannot do, usually by sending the call to another server.
class RedirectHandler {
 public:
  // A call got an error reply, or was not sent because there is no connection. True if the handler
  // takes the call over: then it is responsible for ending the call.
  virtual bool on_error(RedisCall& call, std::string_view error, Nanos now) = 0;
  virtual bool on_unsent(RedisCall& call, Nanos now) = 0;
  // A connection was lost, or could not be made.
  virtual void on_connection_lost(Nanos now) = 0;
  // A push message of RESP3, which is not a reply.
  virtual void on_push(std::span<const wire::RespValue>) {}

 protected:
  ~RedirectHandler() = default;
};

// The client side of one Redis connection, without I/O: a state machine that gets events and the
// time, and returns bytes to send and the time of its next timer. The time is any monotonic one.
//
// Calls are pipelined, and the server replies in order. A call that times out fails, but keeps its
// place in the pipeline, so that its late reply is dropped. Calls wait while a connection is being
// made; after a failed attempt they fail at once. Consecutive timeouts open the circuit breaker: no
// call is sent until the server has answered a PING in time.
//
// Not thread-safe. Calls end from within its functions, and may start calls then.
class ConnectionFsm {
 public:
  // `counts` and `handler`, if any, outlive it. Wants a connection at once.
  ConnectionFsm(const ConnectionOptions& options, LinkCounts& counts, LogCallback log, Nanos now,
                RedirectHandler* handler = nullptr);
  ConnectionFsm(const ConnectionFsm&) = delete;
  ConnectionFsm& operator=(const ConnectionFsm&) = delete;

  // ---- Events

  // `call` must live until it ends, which may be before this returns.
  void call(RedisCall& call, Nanos now) { this->call(call, now, options_.timeout); }
  // With less time than the timeout. The breaker ignores a call with less than half of it.
  void call(RedisCall& call, Nanos now, Nanos within);
  // The same for a call that already has its deadline, and is counted. `asking`: send ASKING first,
  // so that a node executes it whose import of the hash slot has not finished.
  void pass_on(RedisCall& call, bool asking, Nanos now);
  void on_connected(Nanos now);
  void on_bytes(std::string_view bytes, Nanos now);
  void on_disconnected(std::string_view why, Nanos now,
                       CallFailure failure = CallFailure::unavailable);
  void on_timer(Nanos now);
  // Closes the connection, if there is one, and makes a new one. Calls in flight fail.
  void reconnect(const std::string& why, Nanos now);
  // Changes the server's URL in messages.
  void rename(std::string server) { server_ = std::move(server); }
  // Fails all pending calls. No call may be made any more.
  void end();

  // ---- State, to be checked after each event

  // True if there should be a connection, open or in progress; false if it should be closed.
  bool wants_connection() const { return phase_ != ConnectionPhase::backing_off; }
  // Bytes to send, once connected.
  std::string_view unsent() const { return std::string_view(out_).substr(sent_); }
  void on_sent(std::size_t bytes);
  // Time at which `on_timer` should be called; kForever for never.
  Nanos wake_at() const;

  // True if there is no connection because of an error that an operator has to fix.
  bool is_misconfigured() const { return down_ && down_failure_ == CallFailure::misconfigured; }
  bool is_ready() const { return phase_ == ConnectionPhase::ready; }
  bool breaker_is_open() const { return breaker_open_; }
  // True without pending calls.
  bool is_idle() const { return in_flight_.empty() && waiting_.empty(); }
  const std::string& server() const { return server_; }
  bool speaks_resp3() const { return handshake_.speaks_resp3(); }

 private:
  enum class ConnectionPhase : std::uint8_t { backing_off, connecting, handshake, ready };

  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // One command in the pipeline. Those with a call form a linked list in the order of their
  // deadlines, which is nearly always the order in which they were made.
  struct PendingCall {
    RedisCall* call = nullptr;  // null: it has timed out, or is a probe or ASKING
    Nanos began{};
    Nanos deadline{};
    std::uint32_t previous = kNone;
    std::uint32_t next = kNone;
    bool with_source = false;
    bool asking = false;
    bool probe = false;
  };

  std::uint32_t new_pending();
  void free_pending(std::uint32_t index) { free_.push_back(index); }
  void link_pending(std::uint32_t index, RedisCall& call);
  RedisCall& unlink_pending(std::uint32_t index);
  void send(std::uint32_t index, Nanos now);
  void send_waiting(Nanos now);

  void fail(RedisCall& call, CallFailure failure, std::string_view why);
  void fail_unsent(RedisCall& call, Nanos now);
  void on_reply(Nanos now);
  bool is_reply() const;
  void on_handshake_reply(Nanos now);
  void on_call_reply(std::uint32_t index, Nanos now);
  void on_error_reply(std::uint32_t index, std::string_view error, Nanos now);
  void on_probe_reply(Nanos now);
  void note_latency(const PendingCall& slot, Nanos now);

  void time_out_calls(Nanos now);
  void count_timeout(Nanos now);
  void open_breaker(Nanos now);
  void close_breaker();
  void probe(Nanos now);

  void connect(Nanos now);
  void become_ready(Nanos now);
  void fail_attempt(CallFailure failure, std::string why, Nanos now);
  void lose_connection(const std::string& why, Nanos now);
  void back_off(Nanos now);
  void fail_in_flight(std::string_view why);
  void fail_waiting(Nanos now);
  void set_connected(bool connected);
  void on_protocol_error(std::string_view why, Nanos now);

  Nanos jittered(Nanos longest);
  void log(LinkLogLevel level, std::string_view text) const;

  const ConnectionOptions options_;
  LinkCounts& counts_;
  const LogCallback log_;
  RedirectHandler* const handler_;
  std::string server_;
  Handshake handshake_;
  ConnectionPhase phase_ = ConnectionPhase::backing_off;

  std::vector<PendingCall> pending_;
  std::vector<std::uint32_t> free_;
  std::uint32_t oldest_ = kNone;         // head of the list: the next to time out
  std::uint32_t youngest_ = kNone;       // its tail
  RingBuffer<std::uint32_t> in_flight_;  // sent, in the order of their replies
  RingBuffer<std::uint32_t> waiting_;    // for a connection

  std::string out_;
  std::size_t sent_ = 0;
  std::string partial_;  // the start of an incomplete reply
  wire::RespReplyParser parser_;
  std::string reconnect_why_;  // set: reconnect once the received replies are read

  Nanos connect_until_{};       // while connecting and in the handshake
  Nanos retry_at_{};            // while backing off
  Nanos ready_at_{};            // start of the ready phase
  Nanos last_received_{};       // the last reply, or the send that ended an idle pipeline
  std::uint32_t attempts_ = 0;  // since the last reply to a call
  bool down_ = false;           // the last attempt failed, for this reason:
  CallFailure down_failure_ = CallFailure::unavailable;
  std::string down_why_;

  std::uint32_t timed_out_in_a_row_ = 0;
  bool breaker_open_ = false;
  bool probing_ = false;    // a probe is in flight
  bool connected_ = false;  // as counted in LinkCounts
  bool ended_ = false;
  Nanos probe_at_{};
  Nanos probe_deadline_{};

  std::uint64_t random_;
};

}  // namespace weir::store::redis
