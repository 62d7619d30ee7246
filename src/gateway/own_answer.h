#pragma once

#include <string>

#include "gateway/client_side.h"
#include "gateway/refusal.h"

namespace weir::gateway {

// The reason of an answer to a client that holds much when all hold too much.
inline constexpr std::string_view kTooMuchHeld =
    "the clients of this gateway hold too much memory: try again later";

// Appends the head of an answer as HTTP/1 has it. `version`: of the request; `chunked`: the body
// comes in chunks.
void append_http1_head(std::string& out, const AnswerHead& head, int version, bool chunked);

// Appends all of an answer of the gateway's own, behind which the connection ends.
void append_last_answer(std::string& out, const Answer& answer);

// Whether an answer of the gateway's own may have a body.
inline bool may_have_body(const Answer& answer) {
  return answer.status != 204 && answer.status != 304;
}

}  // namespace weir::gateway
