#include "gateway/own_answer.h"

#include <fmt/format.h>

#include <iterator>

#include "wire/http1_response.h"

namespace weir::gateway {

namespace {

// "Connection: close" where the client would expect otherwise, and the other way round.
std::string_view connection_line(bool keeps, int version) {
  if (!keeps) return "Connection: close\r\n";
  return version == 10 ? "Connection: keep-alive\r\n" : "";
}

void append_line(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

}  // namespace

void append_http1_head(std::string& out, const AnswerHead& head, int version, bool chunked) {
  fmt::format_to(std::back_inserter(out), "HTTP/1.1 {} {}\r\n", head.status,
                 head.reason.empty() ? wire::status_text(head.status) : head.reason);
  out.append(head.fields);
  if (chunked) {
    out += "Transfer-Encoding: chunked\r\n";
  } else if (!head.length.empty()) {
    append_line(out, "Content-Length", head.length);
  }
  if (!head.upgrade.empty()) {
    out += "Connection: upgrade\r\n";
    append_line(out, "Upgrade", head.upgrade);
  } else if (head.status >= 200) {
    out += connection_line(head.keeps, version);
  }
  out += "\r\n";
}

void append_last_answer(std::string& out, const Answer& answer) {
  const std::string length = std::to_string(answer.body.size());
  const AnswerHead head{
      .status = answer.status, .fields = answer.fields, .length = length, .keeps = false};
  append_http1_head(out, head, 11, false);
  out += answer.body;
}

}  // namespace weir::gateway
