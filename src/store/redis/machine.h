#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "store/redis/call.h"
#include "store/redis/counts.h"
#include "store/redis/handshake.h"
#include "store/redis/ring.h"
#include "wire/resp_reply.h"

namespace weir::store::redis {

struct MachineOptions {
  Login login{};
  std::string server = "redis";  // its name in texts for people, without a password

  Nanos timeout = std::chrono::milliseconds{50};         // for a call, from when it is made
  Nanos connect_timeout = std::chrono::seconds{1};       // until a connection is ready for calls
  Nanos longest_silence = std::chrono::seconds{1};       // with calls in flight, then it is dropped
  Nanos least_back_off = std::chrono::milliseconds{10};  // before the first attempt to reconnect
  Nanos most_back_off = std::chrono::seconds{2};
  Nanos probe_interval = std::chrono::milliseconds{100};  // while the breaker is open
  std::uint32_t breaker_after = 5;                        // calls in a row that have timed out

  std::size_t most_calls = 16 << 10;  // not answered yet; what has timed out counts until then
  std::size_t most_bytes = 8 << 20;   // not sent yet
  std::uint64_t seed = 1;             // of the jitter
  wire::RespReplyRoom reply_room{};
};

// Who knows more than one server, and is told what one of them cannot do.
class Guide {
 public:
  // A call was answered with an error, or was never sent for want of a connection. Whether it is
  // seen to: then it is the guide's to see that it is told its end.
  virtual bool on_error(Call& call, std::string_view error, Nanos now) = 0;
  virtual bool on_unsent(Call& call, Nanos now) = 0;
  // A connection could not be made, or is lost.
  virtual void on_trouble(Nanos now) = 0;
  // What nobody has asked for.
  virtual void on_news(std::span<const wire::RespValue>) {}

 protected:
  ~Guide() = default;
};

// A client of one Redis server without I/O: told what happens to a connection and what time it is,
// it says what to send and when it wants to be woken. Time is any that never goes back.
//
// Calls are pipelined, and answered in order. One that takes too long is told so, but its place
// stays, so that the late reply goes nowhere. While a connection is being made calls wait for it;
// behind an attempt that has failed they fail at once. Calls that time out one after the other open
// the breaker: no more are made until the server has answered a PING in time.
//
// Not thread-safe. Calls are told their end from within, and may make calls then.
class Machine {
 public:
  // `counts` and `guide`, if any, outlive it. Wants to connect at once.
  Machine(const MachineOptions& options, LinkCounts& counts, Log log, Nanos now,
          Guide* guide = nullptr);
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // ---- In

  // `call` must live until it is told its end, which may be before this returns.
  void call(Call& call, Nanos now) { this->call(call, now, options_.timeout); }
  // Within less time. If that is less than half of the timeout, the breaker does not count it.
  void call(Call& call, Nanos now, Nanos within);
  // The same for one that has its deadline, and was counted. `asking`: it may be answered by a node
  // that its slot is on the way to.
  void pass_on(Call& call, bool asking, Nanos now);
  void on_connected(Nanos now);
  void on_bytes(std::string_view bytes, Nanos now);
  void on_disconnected(std::string_view why, Nanos now, Failure failure = Failure::unavailable);
  void on_time(Nanos now);
  // Makes the connection anew, if there is one: calls in flight fail.
  void leave(const std::string& why, Nanos now);
  // What it is called in texts for people, from now on.
  void rename(std::string server) { server_ = std::move(server); }
  // Tells all calls that they have failed. None may be made any more.
  void end();

  // ---- Out

  // To be looked at after each of the above: whether there should be a connection, made or in the
  // making, or none.
  bool wants_connection() const { return state_ != State::pausing; }
  // To be sent, once connected.
  std::string_view unsent() const { return std::string_view(out_).substr(sent_); }
  void on_sent(std::size_t bytes);
  // When `on_time` should be called; kForever for never.
  Nanos wake_at() const;

  // Whether there is no connection because of something that somebody has to put right.
  bool is_mistaken() const { return down_ && down_failure_ == Failure::misconfigured; }
  bool is_ready() const { return state_ == State::ready; }
  bool breaker_is_open() const { return breaker_open_; }
  // Nobody waits for anything.
  bool is_idle() const { return in_flight_.empty() && waiting_.empty(); }
  const std::string& server() const { return server_; }
  bool speaks_resp3() const { return handshake_.speaks_resp3(); }

 private:
  enum class State : std::uint8_t { pausing, connecting, greeting, ready };

  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // One call's place in the pipeline. Open ones are linked in the order of their deadlines, which
  // is nearly always that in which they were made.
  struct Slot {
    Call* call = nullptr;  // none: it has timed out, or is a probe
    Nanos began{};
    Nanos deadline{};
    std::uint32_t before = kNone;
    std::uint32_t behind = kNone;
    bool with_source = false;
    bool asking = false;
    bool probe = false;
  };

  std::uint32_t new_slot();
  void free_slot(std::uint32_t index) { free_.push_back(index); }
  void open_slot(std::uint32_t index, Call& call);
  Call& close_slot(std::uint32_t index);
  void send(std::uint32_t index, Nanos now);
  void send_waiting(Nanos now);

  void refuse(Call& call, Failure failure, std::string_view why);
  void refuse_unsent(Call& call, Nanos now);
  void on_reply(Nanos now);
  bool is_reply() const;
  void on_greeting(Nanos now);
  void on_call_reply(std::uint32_t index, Nanos now);
  void on_error_reply(std::uint32_t index, std::string_view error, Nanos now);
  void on_probe_reply(Nanos now);
  void note_latency(const Slot& slot, Nanos now);

  void time_out_calls(Nanos now);
  void count_timeout(Nanos now);
  void open_breaker(Nanos now);
  void close_breaker();
  void probe(Nanos now);

  void connect(Nanos now);
  void become_ready(Nanos now);
  void give_up_attempt(Failure failure, std::string why, Nanos now);
  void lose_connection(const std::string& why, Nanos now);
  void pause(Nanos now);
  void fail_in_flight(std::string_view why);
  void fail_waiting(Nanos now);
  void set_connected(bool connected);
  void on_broken(std::string_view why, Nanos now);

  Nanos jittered(Nanos longest);
  void say(LogLevel level, std::string_view text) const;

  const MachineOptions options_;
  LinkCounts& counts_;
  const Log log_;
  Guide* const guide_;
  std::string server_;
  Handshake handshake_;
  State state_ = State::pausing;

  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::uint32_t oldest_ = kNone;    // open: the first to time out
  std::uint32_t youngest_ = kNone;  // the last
  Ring<std::uint32_t> in_flight_;   // sent, in the order of the replies to come
  Ring<std::uint32_t> waiting_;     // for a connection

  std::string out_;
  std::size_t sent_ = 0;
  std::string kept_;  // the start of a reply
  wire::RespReplyParser parser_;
  std::string leave_because_;  // the connection is to be made anew once its replies are read

  Nanos connect_until_{};       // connecting, greeting
  Nanos retry_at_{};            // pausing
  Nanos ready_at_{};            // since when
  Nanos heard_at_{};            // the last reply, or when something was sent that has none
  std::uint32_t attempts_ = 0;  // since it was last well
  bool down_ = false;           // the last attempt has failed, because
  Failure down_failure_ = Failure::unavailable;
  std::string down_why_;

  std::uint32_t timed_out_in_a_row_ = 0;
  bool breaker_open_ = false;
  bool probing_ = false;    // a probe is in flight
  bool connected_ = false;  // as counted
  bool ended_ = false;
  Nanos probe_at_{};
  Nanos probe_deadline_{};

  std::uint64_t random_;
};

}  // namespace weir::store::redis
