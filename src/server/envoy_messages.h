#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "envoy/call.h"

// Envoy's rate limit messages, from and to Protocol Buffers and JSON.

namespace weir::server {

// Decodes calls. Its memory is used again for each: one object serves all sessions of a thread, as
// each call is handed over before the next is read. Not thread-safe.
class EnvoyMessages {
 public:
  static EnvoyMessages& of_this_thread();
  EnvoyMessages();
  EnvoyMessages(const EnvoyMessages&) = delete;
  EnvoyMessages& operator=(const EnvoyMessages&) = delete;

  // Decodes a RateLimitRequest; null if it is malformed. The call borrows from the message, and is
  // valid until the next one is read. Stops at the first descriptor above envoy::kMostDescriptors:
  // the call is refused for that one.
  const envoy::Call* read(std::string_view message);
  // The same of a request in JSON.
  const envoy::Call* read_json(std::string_view text);

  // Appends the response as a length-prefixed gRPC message.
  static void append(std::string& out, const envoy::Answer& answer);
  static std::string to_json(const envoy::Answer& answer);

 private:
  void reset();
  envoy::Descriptor& next_descriptor();

  envoy::Call call_;
  std::size_t used_ = 0;   // descriptors of `call_`, while it is read
  std::string from_json_;  // the last JSON request as Protocol Buffers: `call_` borrows from it
};

}  // namespace weir::server
