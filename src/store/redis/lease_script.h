#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "store/redis/command_arguments.h"
#include "store/redis/redis_call.h"
#include "store/redis/script_time.h"
#include "store/shared_store.h"
#include "wire/resp_reply.h"

namespace weir::store::redis {

// Encodes one lease request as a script call, and decodes the replies to a response. Used for one
// request after the other: it keeps its buffers. No I/O; not thread-safe.
//
// The script leases as store/lease/ledger.h specifies, and replies with the lease and the new
// state. If it needs a debt converted to another price, or other periods of a calendar, it replies
// "again", as in LimitScript.
class LeaseScript {
 public:
  // The request, and everything it borrows, must live until its response. False if its limit cannot
  // be leased: then the response says why, and there is nothing to send.
  bool start(const LeaseRequest& request, const ScriptTime& server_time, LeaseResponse& response);

  void append_command(std::string& out, bool with_source) const;

  // Never gets an error reply: the connection handles those. `again`: the command has changed, and
  // has to be sent again.
  RedisCall::ReplyResult on_reply(std::span<const wire::RespValue> reply, LeaseResponse& response);

 private:
  void write_command();
  void write_clock();
  void write_limit();
  Permits least() const;
  Permits wanted() const;

  RedisCall::ReplyResult prepare_next_round(const wire::RespValue& text, LeaseResponse& response);
  bool read_numbers(std::span<const wire::RespValue> numbers, LeaseResponse& response) const;
  void describe(const core::State& state, std::int64_t retry_after, LeaseResponse& response) const;

  LeaseRequest request_{};
  int round_ = 0;
  std::uint64_t test_birth_ = 0;  // birth of keys that a test creates
  Instant test_time_{};
  // From the reply of an earlier round: if the key still has this text, the script replaces it by
  // the other one, whose debt is at the present price.
  std::string expected_text_{};
  std::string replacement_{};
  // Chooses the calendar's periods that the script gets.
  Instant calendar_time_{};
  CommandArguments keys_{};
  CommandArguments arguments_{};
  std::string scratch_{};
};

}  // namespace weir::store::redis
