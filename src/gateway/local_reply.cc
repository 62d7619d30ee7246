#include "gateway/local_reply.h"

#include <fmt/format.h>

#include <iterator>

#include "wire/http1_response.h"

namespace weir::gateway {

namespace {

// Connection is sent only where it differs from the default of the client's HTTP version.
std::string_view connection_line(bool keep_alive, int version) {
  if (!keep_alive) return "Connection: close\r\n";
  return version == 10 ? "Connection: keep-alive\r\n" : "";
}

void append_line(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

}  // namespace

void append_http1_head(std::string& out, const ResponseHead& head, int version, bool chunked) {
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
    out += connection_line(head.keep_alive, version);
  }
  out += "\r\n";
}

void append_final_reply(std::string& out, const LocalReply& answer) {
  const std::string length = std::to_string(answer.body.size());
  const ResponseHead head{
      .status = answer.status, .fields = answer.fields, .length = length, .keep_alive = false};
  append_http1_head(out, head, 11, false);
  out += answer.body;
}

}  // namespace weir::gateway
