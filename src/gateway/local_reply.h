#pragma once

#include <string>

#include "gateway/deny_reply.h"
#include "gateway/downstream.h"

namespace weir::gateway {

// Detail of the 503 for a client whose connection is shed.
inline constexpr std::string_view kMemoryShedDetail =
    "the connections of this gateway use too much memory: try again later";

// Appends the head of a response in HTTP/1 format. `version`: of the request; `chunked`: the body
// is sent in chunks.
void append_http1_head(std::string& out, const ResponseHead& head, int version, bool chunked);

// Appends a whole local reply that ends the connection.
void append_final_reply(std::string& out, const LocalReply& answer);

// False for statuses that never have a body.
inline bool may_have_body(const LocalReply& answer) {
  return answer.status != 204 && answer.status != 304;
}

}  // namespace weir::gateway
