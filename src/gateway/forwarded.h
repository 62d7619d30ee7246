#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/client_address.h"
#include "gateway/config.h"

namespace weir::gateway {

// Which fields of a message are for this hop only, and must not be sent on: those that always are
// (Connection, Keep-Alive, Transfer-Encoding, Upgrade, …) and those that Connection names. It
// cannot name what matters to who is behind: Host, Content-Length, Authorization, X-Forwarded-For,
// … Borrows the fields.
class HopByHop {
 public:
  explicit HopByHop(Fields fields);
  bool drops(std::string_view name) const;

 private:
  std::vector<std::string_view> named_;
};

// Between whom a request is passed on.
struct Hop {
  const Address& peer;      // who has sent it here
  bool trusted = false;     // a proxy of trusted_proxies: what it tells is kept
  bool tls = false;         // it came encrypted
  std::uint16_t port = 80;  // of the door it came through
  std::string_view host;    // as it was asked for, with its port if it had one
  ForwardedStyle style = ForwardedStyle::both;
};

// Appends the fields of a request for the service behind, each line with its CRLF: all but those of
// this hop, Host, Content-Length, Expect, X-Request-Id and what tells who asks; then
// X-Forwarded-For and the like. Left to the caller: Host, the framing of the body, Connection,
// X-Request-Id.
void append_request_fields(std::string& out, const Hop& hop, Fields fields);

// Of the lines behind the body of a request, those that may be passed on. Services that merge
// trailers into the header must find nothing there that was not counted: no trailer tells who asks
// or which request it is, has the name of one of the request's `fields`, or of a header that its
// route reads.
std::string passable_request_trailers(std::string_view trailers, Fields fields,
                                      std::span<const std::string> headers_read);

// Appends the fields of an answer for the client: all but those of this hop and Content-Length.
void append_response_fields(std::string& out, Fields fields);

// Whether a field tells who asks, in any spelling that services may take for it: X_Forwarded_For.
bool tells_who_asks(std::string_view name);

}  // namespace weir::gateway
