#pragma once

#include <string>
#include <string_view>

#include "wire/http1_response.h"

namespace weir::server {

// An HTTP response, of any version. Borrows its texts.
struct ResponseParts {
  int status = 200;
  std::string_view content_type{};  // a constant
  std::string_view body{};
  std::string_view fields{};  // lines with their CRLF
  bool head = false;          // to HEAD: everything but the body
};

// Sends responses that are not HTTP/1 text.
class ResponseSink {
 public:
  virtual void respond(const ResponseParts& response) = 0;

 protected:
  ~ResponseSink() = default;
};

// A field of refusals, which caches must not keep.
inline constexpr std::string_view kNoStore = "Cache-Control: no-store\r\n";

// Writes the response to one request: as HTTP/1 text, or to a sink. Over HTTP/1 it appends, so the
// responses to earlier requests of the connection must have been written before.
class HttpResponder {
 public:
  HttpResponder(std::string& out, wire::HttpConnection connection, bool head = false)
      : out_(&out), connection_(connection), head_(head) {}
  HttpResponder(ResponseSink& sink, bool head)
      : sink_(&sink), connection_(wire::HttpConnection::unsaid), head_(head) {}

  // One of these is called, once. `content_type` is a constant; `fields` are lines with their CRLF.
  void respond(int status, std::string_view content_type, std::string_view body,
               std::string_view fields = {});
  void json(int status, std::string_view body, std::string_view fields = {});
  // An RFC 9457 problem. `field` names the field or parameter of the request that is wrong, if it
  // is one.
  void problem(int status, std::string_view detail, std::string_view field = {},
               std::string_view fields = {});

 private:
  // One of these is set.
  std::string* const out_ = nullptr;
  ResponseSink* const sink_ = nullptr;
  const wire::HttpConnection connection_;
  const bool head_;
};

}  // namespace weir::server
