#include "gateway/own_answer.h"

#include <fmt/format.h>

#include <iterator>

#include "wire/http1_response.h"

namespace weir::gateway {

std::string_view connection_line(bool keeps, int version) {
  if (!keeps) return "Connection: close\r\n";
  return version == 10 ? "Connection: keep-alive\r\n" : "";
}

void append_own_answer(std::string& out, const Answer& answer, const OwnAnswer& how) {
  fmt::format_to(std::back_inserter(out), "HTTP/1.1 {} {}\r\n", answer.status,
                 wire::status_text(answer.status));
  out.append(answer.fields).append(how.more);
  const bool has_body = answer.status != 204 && answer.status != 304;
  if (has_body) {
    fmt::format_to(std::back_inserter(out), "Content-Length: {}\r\n", answer.body.size());
  }
  out.append(connection_line(how.keeps, how.version)).append("\r\n");
  if (has_body && !how.head) out += answer.body;
}

}  // namespace weir::gateway
