#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "envoy/call.h"

// Envoy's messages as they are on the wire, and as the service knows them.

namespace weir::server {

// What a call was read from, which it borrows its texts from. One for all sessions of a thread, as
// each call is over before the next is read. Not thread-safe.
class EnvoyMessages {
 public:
  static EnvoyMessages& of_this_thread();
  EnvoyMessages();
  EnvoyMessages(const EnvoyMessages&) = delete;
  EnvoyMessages& operator=(const EnvoyMessages&) = delete;

  // The call that a RateLimitRequest is, or null if it is none. Borrows from the message, and is
  // good until the next one is read. Of descriptors that are too many only one is read.
  const envoy::Call* read(std::string_view message);
  // The same of one in JSON.
  const envoy::Call* read_json(std::string_view text);

  // Appends the answer as a message of gRPC.
  static void append(std::string& out, const envoy::Answer& answer);
  // As JSON.
  static std::string to_json(const envoy::Answer& answer);

 private:
  void begin();
  envoy::Descriptor& next_descriptor();

  envoy::Call call_;
  std::size_t used_ = 0;   // of its descriptors, while it is read
  std::string from_json_;  // what was read last, in the other encoding
};

}  // namespace weir::server
