#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "store/redis/arguments.h"
#include "store/redis/call.h"
#include "store/redis/clockwork.h"
#include "store/shared.h"
#include "wire/resp_reply.h"

namespace weir::store::redis {

// What is said about one loan, from the question to the answer. To be used again for the next one:
// it keeps its buffers. Without I/O, and not thread-safe.
//
// The script lends as store/lease/ledger.h says, and replies with what it lent and what it wrote.
// Prices and calendars that it cannot know it asks for, as in a conversation.
class LoanTalk {
 public:
  // The question, and what it borrows, must live until it is answered. False if its limit is not
  // fit for loans: then the answer says so, and there is nothing to send.
  bool start(const LoanQuestion& question, const Clockwork& known, LoanAnswer& answer);

  void append_command(std::string& out, bool with_source) const;

  // Never an error of the server. `again`: the command, which has changed, has to be sent again.
  Call::Next on_reply(std::span<const wire::RespValue> reply, LoanAnswer& answer);

 private:
  void write_command();
  void write_clock();
  void write_limit();
  Permits least() const;
  Permits wanted() const;

  Call::Next learn(const wire::RespValue& text, LoanAnswer& answer);
  bool read_numbers(std::span<const wire::RespValue> numbers, LoanAnswer& answer) const;
  void describe(const core::State& state, std::int64_t retry_after, LoanAnswer& answer) const;

  LoanQuestion question_{};
  int round_ = 0;
  std::uint64_t test_birth_ = 0;  // of a key that is made at a time that a test gives
  Instant test_time_{};
  // Learnt in an earlier round: what is there is to be taken for this; where in a calendar it lies.
  std::string found_{};
  std::string instead_{};
  Instant around_{};
  Arguments keys_{};
  Arguments arguments_{};
  std::string scratch_{};
};

}  // namespace weir::store::redis
