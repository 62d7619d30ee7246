#pragma once

#include <string>
#include <string_view>

#include "gateway/refusal.h"

namespace weir::gateway {

// How an answer of the gateway's own is sent.
struct OwnAnswer {
  bool head = false;        // to HEAD: without the body
  bool keeps = true;        // the connection
  int version = 11;         // of the request
  std::string_view more{};  // fields, each line with its CRLF
};

// Appends all of it.
void append_own_answer(std::string& out, const Answer& answer, const OwnAnswer& how);

// "Connection: close" where the client would expect otherwise, and the other way round.
std::string_view connection_line(bool keeps, int version);

}  // namespace weir::gateway
