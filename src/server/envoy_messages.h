#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "envoy/messages.h"

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
  // valid until the next one is read. Stops at the first descriptor above envoy::kMaxDescriptors:
  // the call is refused for that one.
  const envoy::RateLimitRequest* read(std::string_view message);
  // The same of a request in JSON.
  const envoy::RateLimitRequest* read_json(std::string_view text);

  // Appends the response as a length-prefixed gRPC message.
  static void append(std::string& out, const envoy::RateLimitResponse& answer);
  static std::string to_json(const envoy::RateLimitResponse& answer);

 private:
  void reset();
  envoy::RateLimitDescriptor& next_descriptor();

  envoy::RateLimitRequest call_;
  std::size_t used_ = 0;   // descriptors of `call_`, while it is read
  std::string from_json_;  // the last JSON request as Protocol Buffers: `call_` borrows from it
};

}  // namespace weir::server
