#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weir::wire {

// Limits on one response: a client need not trust the server.
struct HttpReplyLimits {
  static constexpr std::size_t kHeadBytes = 16 << 10;
  static constexpr std::size_t kBodyBytes = 44 << 10;
};

// Reads answers as the daemon writes them, for those who ask: HTTP/1.1 with a Content-Length. What
// is sent in chunks, or until the connection ends, is an error.
//
// Without I/O: it is shown all bytes that have not been used up, and says what it makes of them.
class HttpReplyParser {
 public:
  enum class Status {
    need_more,
    reply,
    error,  // nothing that follows can be understood
  };

  Status parse(std::string_view input);

  // Bytes of the response at the front of the input.
  std::size_t consumed() const { return consumed_; }

  int code() const { return code_; }
  std::string_view body() const { return body_; }  // borrowed from the input
  // Whether the connection ends with this answer.
  bool closes() const { return closes_; }
  std::string_view error() const { return error_; }

 private:
  Status parse_head(std::string_view head);
  Status parse_status_line(std::string_view line);
  Status parse_field(std::string_view line);
  Status fail(std::string_view error);

  int code_ = 0;
  std::int64_t length_ = -1;
  std::string_view body_;
  bool closes_ = false;
  std::size_t consumed_ = 0;
  std::string_view error_;
};

}  // namespace weir::wire
