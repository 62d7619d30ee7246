#include "gateway/request_head.h"

#include <fmt/format.h>

#include <iterator>

namespace weir::gateway {

bool is_sent_chunked(const wire::HttpFraming& framing) {
  return framing.chunked || framing.until_end;
}

bool has_known_length(const wire::HttpRequest& request, const wire::HttpFraming& framing) {
  return request.declares_length && !is_sent_chunked(framing);
}

void append_request_head(std::string& out, const RequestHead& head) {
  const wire::HttpRequest& request = head.request;
  const auto line = [&out](std::string_view name, std::string_view value) {
    out.append(name).append(": ").append(value).append("\r\n");
  };
  out.append(request.method).append(" ").append(head.path);
  const bool has_query = request.target.find('?') != std::string_view::npos;
  if (has_query) out.append("?").append(request.query);
  out += " HTTP/1.1\r\n";
  line("Host", head.host);
  append_request_fields(out, head.hop, head.fields);
  line("X-Request-Id", head.id);
  if (is_sent_chunked(head.framing)) {
    out += "Transfer-Encoding: chunked\r\n";
  } else if (has_known_length(request, head.framing)) {
    fmt::format_to(std::back_inserter(out), "Content-Length: {}\r\n", head.framing.length);
  }
  if (!head.upgrade.empty()) {
    out += "Connection: upgrade\r\n";
    line("Upgrade", head.upgrade);
  }
  out += "\r\n";
}

// A body that is already complete gets a Content-Length: some servers do not support chunked
// requests.
wire::HttpFraming framing_of(wire::H2Stream& stream) {
  const bool waits = stream.expects_continue();
  if (stream.length()) return {.length = *stream.length(), .wants_continue = waits};
  if (stream.is_whole() && stream.request_trailers().empty()) {
    return {.length = stream.parts().size()};
  }
  return {.until_end = true, .wants_continue = waits};
}

}  // namespace weir::gateway
