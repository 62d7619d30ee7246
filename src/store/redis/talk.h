#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "store/redis/call.h"
#include "store/shared.h"
#include "wire/resp_reply.h"

namespace weir::store::redis {

// What is said about one question, from its first words to the answer. Used for one question after
// the other, and keeps its buffers.
class Talk {
 public:
  virtual ~Talk() = default;

  // The question lives until its answer. `there` is the server's time, as nearly as is known.
  virtual void start(const SharedQuestion& question, Instant there) = 0;
  virtual void append_command(std::string& out, bool with_source) const = 0;
  // Never an error: those are not its business. `again`: it has another command to send.
  virtual Call::Next on_reply(std::span<const wire::RespValue> reply, SharedAnswer& answer) = 0;
};

// One for each question that is open at the same time. Called on the threads of links.
using MakeTalk = std::function<std::unique_ptr<Talk>()>;

// A conversation about limits, by scripts.
std::unique_ptr<Talk> talk_by_scripts();

}  // namespace weir::store::redis
