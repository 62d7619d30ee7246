#pragma once

#include <string>
#include <string_view>

#include "gateway/forwarded.h"
#include "wire/h2.h"
#include "wire/http1_head.h"

namespace weir::gateway {

// A request head for the upstream, independent of the client's HTTP version. Borrows its strings.
struct RequestHead {
  const wire::HttpRequest& request;
  const wire::HttpFraming& framing;
  std::string_view path;  // as the upstream shall see it
  std::string_view host;
  std::string_view id;       // X-Request-Id, of the client or generated
  std::string_view upgrade;  // the protocol to switch to; empty: none
  const Hop& hop;
  FieldSpan fields;  // of the request
};

// Appends it as an HTTP/1.1 head, with the empty line.
void append_request_head(std::string& out, const RequestHead& head);

// True if the length of the body is known in advance.
bool has_known_length(const wire::HttpRequest& request, const wire::HttpFraming& framing);
// True if the body is forwarded with chunked encoding, because its length is unknown.
bool is_sent_chunked(const wire::HttpFraming& framing);

// The body framing of an HTTP/2 request, for HTTP/1.1.
wire::HttpFraming framing_of(wire::H2Stream& stream);

}  // namespace weir::gateway
