#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/time.h"
#include "store/redis/counts.h"
#include "wire/resp_reply.h"

namespace weir::store::redis {

// Why a call has no reply.
enum class Failure : std::uint8_t { unavailable, timed_out, misconfigured };

// Where failures of that kind are counted.
inline Count& failures_of(LinkCounts& counts, Failure failure) {
  switch (failure) {
    case Failure::timed_out:
      return counts.timeouts;
    case Failure::misconfigured:
      return counts.misconfigured;
    case Failure::unavailable:
      break;
  }
  return counts.unavailable;
}

// How far a call has come, for whoever sends it on its way.
struct Trip {
  Nanos began{};
  Nanos deadline{};
  std::uint16_t slot = 0;         // of its key, in a cluster
  std::uint8_t redirections = 0;  // from one node of a cluster to another
  bool went_elsewhere = false;    // as its node could not be reached
  const std::string* by =
      nullptr;  // who has failed it, while it is told so; none: nobody was asked
};

// A command and who waits for its reply. Told its end exactly once: by `on_answered` or
// `on_failure`.
class Call {
 public:
  // With all of its script, if the server has said that it does not know it.
  virtual void append_command(std::string& out, bool with_source) const = 0;
  // One of its keys, which tells where in a cluster it belongs. All of them belong there.
  virtual std::string_view key() const = 0;

  enum class Next : std::uint8_t { answered, again };
  // Reads the reply, which ends with the call. `again`: what is to be asked now is another command,
  // within the same time.
  virtual Next on_reply(std::span<const wire::RespValue> reply) = 0;

  // Behind the reply that has answered it. May make calls, this one too.
  virtual void on_answered() = 0;
  virtual void on_failure(Failure failure, std::string_view why) = 0;

  // Some of its keys are here and some there, as their slot moves from one node to another. If it
  // can be asked one key at a time it does so instead, and is not told its end.
  virtual bool take_apart(Nanos) { return false; }

  Trip trip{};

 protected:
  ~Call() = default;
};

// A command of words.
void append_words(std::string& out, std::span<const std::string_view> words);

}  // namespace weir::store::redis
