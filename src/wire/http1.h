#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "wire/http1_chunks.h"
#include "wire/http1_head.h"

namespace weir::wire {

// An incremental parser of HTTP/1 requests, one request at a time. Not thread-safe. Buffers at most
// one header and one body of the sizes in HttpLimits, and copies nothing of a request that is
// complete in the input.
//
// Ambiguous requests are refused, since a proxy in front may read them differently (request
// smuggling): Content-Length with Transfer-Encoding, repeated lengths, folded lines, lines without
// CR, blanks before a colon, no Host or two. Hand-written although Boost.Beast has a parser: that
// takes three times as long, and needs each header in one piece. A fuzzer checks that both agree.
class HttpParser {
 public:
  enum class Status {
    need_more,  // call again with the input that was not consumed, and more
    complete,   // request() is complete; call next() before the next parse
    head,   // the head is complete and the body is not; request() has no body. Continue parsing,
            // after sending 100 Continue if the framing wants it; or send the final response
            // and close, without reading the body
    error,  // respond with error_status and close
  };
  struct ParseResult {
    Status status = Status::need_more;
    std::size_t consumed = 0;  // bytes of the input that must not be passed again
    int error_status = 0;
    std::string_view reason{};  // for people
  };

  // Bodies are buffered by the parser; or streamed: a request is complete with its head, and the
  // caller reads the body with HttpBody.
  enum class BodyMode { buffered, streamed };

  explicit HttpParser(HttpLimits limits = {}, BodyMode body_mode = BodyMode::buffered);
  // Not copyable: requests point into it.
  HttpParser(const HttpParser&) = delete;
  HttpParser& operator=(const HttpParser&) = delete;

  // `input` is all that has arrived and was not consumed. The header is consumed in one piece, so
  // the caller's buffer must hold HttpLimits::header bytes.
  ParseResult parse(std::string_view input);

  const HttpRequest& request() const { return request_; }
  // How the request's body is delimited.
  const HttpFraming& framing() const { return framing_; }
  // The protocol of the Upgrade field, if Connection lists `upgrade`; else empty.
  std::string_view upgrade() const { return upgrade_; }

  // Drops the request, to parse the next one.
  void next();

  // Bytes of its buffers.
  std::size_t memory() const {
    return kept_header_.capacity() + body_.capacity() + chunks_.memory();
  }

  // True if a request has begun to arrive: the client is slow then, and not idle.
  bool in_message() const { return stage_ != ParseStage::start; }

 private:
  enum class ParseStage { start, header, body, chunks, complete, failed };
  ParseResult fail(int status, std::string_view reason);
  std::size_t skip_empty_line(std::string_view input);

  ParseResult parse_header(std::string_view input);
  HttpFailure make_request(const char* header);
  HttpFailure read_framing(const char* header);

  ParseResult begin_body(std::string_view input, std::size_t header);
  ParseResult collect_body(std::string_view input);
  ParseResult collect_chunks(std::string_view input);

  // Constant after construction.
  HttpLimits limits_;
  BodyMode body_mode_;

  ParseStage stage_ = ParseStage::start;
  HttpRequest request_;
  ParseResult failure_;

  HttpHead head_;
  HttpFraming framing_;
  std::string_view upgrade_;
  bool skipped_line_ = false;

  // Copies of a request that was not complete in one input.
  std::string kept_header_;
  std::string body_;
  ChunkDecoder chunks_;
};

}  // namespace weir::wire
