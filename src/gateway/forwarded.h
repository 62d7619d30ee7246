#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/client_address.h"
#include "gateway/config.h"

namespace weir::gateway {

// The hop-by-hop fields of a message, which must not be forwarded (RFC 9110, 7.6.1): the fixed ones
// (Connection, Keep-Alive, Transfer-Encoding, Upgrade, …) and those that Connection names.
// Connection cannot name end-to-end fields that servers rely on: Host, Content-Length,
// Authorization, X-Forwarded-For, … Borrows the fields.
class HopByHopFields {
 public:
  explicit HopByHopFields(FieldSpan fields);
  bool drops(std::string_view name) const;

 private:
  std::vector<std::string_view> named_;
};

// The client side of a forwarded request.
struct Hop {
  const IpAddress& peer;    // the address that the connection comes from
  bool trusted = false;     // a trusted proxy: its forwarding fields are kept
  bool tls = false;         // the request came over TLS
  std::uint16_t port = 80;  // of the listener
  std::string_view host;    // as the client sent it, with its port if any
  ForwardedStyle style = ForwardedStyle::both;
};

// Appends the request's fields for the upstream, each line with its CRLF. Drops hop-by-hop fields,
// Host, Content-Length, Expect, X-Request-Id and forwarding fields; then adds X-Forwarded-For and
// the like. The caller adds Host, the framing, Connection and X-Request-Id.
void append_request_fields(std::string& out, const Hop& hop, FieldSpan fields);

// Filters the trailers of a request. Some servers merge trailers into the header, where they would
// replace what the gateway has counted by. So forwarding fields, X-Request-Id, names of the
// request's own `fields` and of headers that the route reads are dropped.
std::string passable_request_trailers(std::string_view trailers, FieldSpan fields,
                                      std::span<const std::string> headers_read);

// Appends the response's fields for the client, without hop-by-hop fields and Content-Length.
void append_response_fields(std::string& out, FieldSpan fields);

// True for forwarding fields (who the client is), in any spelling that servers may take for them:
// X_Forwarded_For.
bool is_forwarding_field(std::string_view name);

}  // namespace weir::gateway
