#pragma once

#include <string>
#include <string_view>

#include "gateway/forwarded.h"
#include "wire/h2.h"
#include "wire/http1_head.h"

namespace weir::gateway {

// A request as it is passed on, whatever the client speaks. Borrows its texts.
struct RequestHead {
  const wire::HttpRequest& request;
  const wire::HttpFraming& framing;
  std::string_view path;  // as the service is to see it
  std::string_view host;
  std::string_view id;       // X-Request-Id, its own or one that was made
  std::string_view upgrade;  // what the client wants to speak, if that is passed on
  const Hop& hop;
  Fields fields;  // of the request
};

// Appends it as a head of HTTP/1.1, the empty line included.
void append_request_head(std::string& out, const RequestHead& head);

// Whether the length of its body is known before it has come.
bool announces_length(const wire::HttpRequest& request, const wire::HttpFraming& framing);
// Whether it is passed on in chunks, since its end is told behind it.
bool passes_in_chunks(const wire::HttpFraming& framing);

// How the body of a request that came by HTTP/2 is delimited for whoever passes it on.
wire::HttpFraming framing_of(wire::H2Stream& stream);

}  // namespace weir::gateway
