#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/time.h"
#include "store/redis/link_counts.h"
#include "wire/resp_reply.h"

namespace weir::store::redis {

// Why a call has no reply.
enum class CallFailure : std::uint8_t { unavailable, timed_out, misconfigured };

// The counter for failures of this kind.
inline SingleWriterCounter& failures_of(LinkCounts& counts, CallFailure failure) {
  switch (failure) {
    case CallFailure::timed_out:
      return counts.timeouts;
    case CallFailure::misconfigured:
      return counts.misconfigured;
    case CallFailure::unavailable:
      break;
  }
  return counts.unavailable;
}

// The routing state of a call, kept by the router that sends it.
struct RouteState {
  Nanos began{};
  Nanos deadline{};
  std::uint16_t slot = 0;         // hash slot of its key, in a cluster
  std::uint8_t redirections = 0;  // followed so far, by MOVED or ASK
  bool was_rerouted = false;      // sent to another node, because its own was unreachable
  // Set during `on_failure`: the server at which the call failed; null if it was not sent.
  const std::string* failed_at = nullptr;
};

// A command to Redis and the consumer of its reply. Ends exactly once: with `on_answered` or with
// `on_failure`.
class RedisCall {
 public:
  // `with_source`: send the script's source, because the server answered NOSCRIPT.
  virtual void append_command(std::string& out, bool with_source) const = 0;
  // One of its keys, by which a cluster router chooses the node. All its keys have the same hash
  // slot.
  virtual std::string_view key() const = 0;

  enum class ReplyResult : std::uint8_t { answered, again };
  // Reads the reply, which is valid only during this function. `again`: the call has another
  // command to send, with the same deadline.
  virtual ReplyResult on_reply(std::span<const wire::RespValue> reply) = 0;

  // After the last reply. May start calls, this one included.
  virtual void on_answered() = 0;
  virtual void on_failure(CallFailure failure, std::string_view why) = 0;

  // Called after TRYAGAIN: the hash slot is being migrated, and its keys are on two nodes. True if
  // the call now runs as one call for each key; then this call ends without being notified.
  virtual bool split_by_key(Nanos) { return false; }

  RouteState route{};

 protected:
  ~RedisCall() = default;
};

// Appends a command in RESP: an array of bulk strings.
void append_resp(std::string& out, std::span<const std::string_view> words);

}  // namespace weir::store::redis
