#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "weir/time.h"

namespace weir::wire {

// The Connection field. HTTP/1.1 persists by default, HTTP/1.0 closes.
enum class HttpConnection { unsaid, close, keep_alive };

// How an answer starts, which many have in common.
struct HttpStart {
  int status = 200;
  std::string_view content_type{};  // left out when empty
  std::string_view date{};          // as append_http_date writes it; left out when empty
};
void append_start(std::string& out, const HttpStart& start);

// An answer. Borrows its texts.
struct HttpResponse {
  int status = 200;
  std::string_view start{};  // as append_start writes it
  std::string_view body{};
  std::string_view fields{};  // more of them, each line with its CRLF
  HttpConnection connection = HttpConnection::unsaid;
  bool head = false;  // to HEAD: everything but the body
};

// Appends the answer to `out`, which allocates nothing once it has grown.
void append_response(std::string& out, const HttpResponse& response);

// The response to Expect: 100-continue.
inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// The reason phrase of a status: "Too Many Requests"; for unknown ones that of their class.
std::string_view status_text(int status);

// "Sun, 06 Nov 1994 08:49:37 GMT".
void append_http_date(std::string& out, Instant time);

}  // namespace weir::wire
