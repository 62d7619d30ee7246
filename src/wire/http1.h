#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "wire/http1_chunks.h"
#include "wire/http1_head.h"

namespace weir::wire {

// Makes requests of the bytes of one connection, one request at a time.
// Not thread-safe. Keeps at most a header and a body of the sizes allowed, and nothing of a request
// that lies whole in the input.
//
// What could be understood in two ways is refused rather than guessed, since a proxy in front may
// have guessed differently: both lengths, several lengths, folded lines, lines without CR, blanks
// before a colon, no Host or two. (Written by hand although Beast has one, which takes three times
// as long and would have to be given each header as a whole; a fuzzer sees to it that both agree.)
class HttpParser {
 public:
  enum class Status {
    need_more,  // call again with what was not consumed, and more
    complete,   // request() is whole; next() before the next parse
    head,       // the head is complete and the body is not: parse on, for 100 to be answered
                // first if the framing wants it; or answer finally and close, which keeps
                // nothing of the body. request() has no body
    error,      // answer error_status and close
  };
  struct Step {
    Status status = Status::need_more;
    std::size_t consumed = 0;  // bytes of the input that need not be given again
    int error_status = 0;
    std::string_view reason{};  // what is wrong, for people
  };

  // What becomes of bodies: collected, or left to whoever reads on (HttpBody), for whom a request
  // is complete with its head.
  enum class Bodies { collected, left };

  explicit HttpParser(HttpLimits limits = {}, Bodies bodies = Bodies::collected);
  // (Requests point into it.)
  HttpParser(const HttpParser&) = delete;
  HttpParser& operator=(const HttpParser&) = delete;

  // `input` is what has arrived and was not consumed yet. The header is consumed as a whole, so
  // there must be room for HttpLimits::header bytes.
  Step parse(std::string_view input);

  const HttpRequest& request() const { return request_; }
  // Of the request: how its body is delimited.
  const HttpFraming& framing() const { return framing_; }
  // What it would speak from now on (Upgrade), if the connection is to be used for it; else empty.
  std::string_view upgrade() const { return upgrade_; }

  // Forgets the request, to read the one behind it.
  void next();

  // Bytes that it holds of a request.
  std::size_t memory() const {
    return kept_header_.capacity() + body_.capacity() + chunks_.memory();
  }

  // Something of a request has arrived, and somebody is waited for: the difference between a
  // client that is slow and one that is idle.
  bool in_message() const { return stage_ != Stage::start; }

 private:
  enum class Stage { start, header, body, chunks, complete, failed };
  Step fail(int status, std::string_view reason);
  std::size_t skip_empty_line(std::string_view input);

  Step parse_header(std::string_view input);
  HttpFailure make_request(const char* header);
  HttpFailure read_framing(const char* header);

  Step begin_body(std::string_view input, std::size_t header);
  Step collect_body(std::string_view input);
  Step collect_chunks(std::string_view input);

  // Constant after construction.
  HttpLimits limits_;
  Bodies bodies_;

  Stage stage_ = Stage::start;
  HttpRequest request_;
  Step failure_;

  HttpHead head_;
  HttpFraming framing_;
  std::string_view upgrade_;
  bool skipped_line_ = false;

  // Of a request that did not lie whole in the input.
  std::string kept_header_;
  std::string body_;
  ChunkDecoder chunks_;
};

}  // namespace weir::wire
