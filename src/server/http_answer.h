#pragma once

#include <string>
#include <string_view>

#include "wire/http1_response.h"

namespace weir::server {

// An answer of HTTP, whatever becomes of it. Borrows its texts.
struct HttpParts {
  int status = 200;
  std::string_view content_type{};  // a constant
  std::string_view body{};
  std::string_view fields{};  // lines with their CRLF
  bool head = false;          // to HEAD: everything but the body
};

// Where answers go that are no text of HTTP/1.
class HttpSink {
 public:
  virtual void respond(const HttpParts& answer) = 0;

 protected:
  ~HttpSink() = default;
};

// A field of refusals: the next one is to be asked about again.
inline constexpr std::string_view kNotToKeep = "Cache-Control: no-store\r\n";

// Where an answer goes, and what of it depends on the request. Appends: what was asked earlier has
// to be answered before.
class HttpAnswer {
 public:
  HttpAnswer(std::string& out, wire::HttpConnection connection, bool head = false)
      : out_(&out), connection_(connection), head_(head) {}
  HttpAnswer(HttpSink& sink, bool head)
      : sink_(&sink), connection_(wire::HttpConnection::unsaid), head_(head) {}

  // Each request is answered once. `content_type` is a constant; `fields` are lines with their
  // CRLF.
  void respond(int status, std::string_view content_type, std::string_view body,
               std::string_view fields = {});
  void json(int status, std::string_view body, std::string_view fields = {});
  // `field` is what of the request is wrong, if it is one thing.
  void problem(int status, std::string_view detail, std::string_view field = {},
               std::string_view fields = {});

 private:
  // One of these.
  std::string* const out_ = nullptr;
  HttpSink* const sink_ = nullptr;
  const wire::HttpConnection connection_;
  const bool head_;
};

}  // namespace weir::server
