#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wire/http1_chunks.h"

namespace weir::wire {

// What a stranger may send, in bytes.
struct HttpLimits {
  std::size_t target = 8 * 1024;   // of the request line; above: 414
  std::size_t header = 16 * 1024;  // request line and fields together, and trailers; above: 431
  std::size_t body = 1024 * 1024;  // without what chunks add; above: 413
  std::size_t fields = 100;        // how many, and how many trailers; above: 431
};

struct HttpField {
  std::string_view name;
  std::string_view value;
};

// The fields of a header, in its order. Kept as places, since the header may move before it is
// complete, and most of them are never looked at.
class HttpFields {
 public:
  struct Place {
    std::uint32_t start = 0;
    std::uint32_t size = 0;
    std::string_view in(const char* header) const { return {header + start, size}; }
  };
  struct Places {
    Place name;
    Place value;
  };

  HttpFields() = default;
  HttpFields(std::span<const Places> places, const char* header)
      : places_(places), header_(header) {}

  std::size_t size() const { return places_.size(); }
  HttpField operator[](std::size_t i) const {
    return {places_[i].name.in(header_), places_[i].value.in(header_)};
  }

 private:
  std::span<const Places> places_;
  const char* header_ = nullptr;
};

// A request. Borrows its texts from the parser and from the input of the parse that completed it:
// they are valid until either is used again.
struct HttpRequest {
  std::string_view method;
  std::string_view target;        // as it was sent
  std::string_view path;          // of the target, still percent-encoded; "*" of OPTIONS *
  std::string_view query;         // behind the question mark, still percent-encoded
  std::string_view host;          // the field, or the authority of an absolute target; may be empty
  std::string_view content_type;  // the first one; empty if there is none
  std::string_view authorization;  // the first one; empty if there is none
  std::string_view body;
  HttpFields fields;
  int version = 11;        // 10 or 11
  bool keep_alive = true;  // what the client wants
  bool head = false;       // answer without the body
  // Whether it says how long its body is. One that does not has none; where one is needed, the
  // answer is 411.
  bool says_length = false;

  // The first value of that name, whatever its case; empty if there is none.
  std::string_view field(std::string_view name) const;
};

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
    need_more,       // call again with what was not consumed, and more
    complete,        // request() is whole; next() before the next parse
    wants_continue,  // answer 100 and parse on, or answer finally and close; request() has no body
    error,           // answer error_status and close
  };
  struct Step {
    Status status = Status::need_more;
    std::size_t consumed = 0;  // bytes of the input that need not be given again
    int error_status = 0;
    std::string_view reason{};  // what is wrong, for people
  };

  explicit HttpParser(HttpLimits limits = {});
  // (Requests point into it.)
  HttpParser(const HttpParser&) = delete;
  HttpParser& operator=(const HttpParser&) = delete;

  // `input` is what has arrived and was not consumed yet. The header is consumed as a whole, so
  // there must be room for HttpLimits::header bytes.
  Step parse(std::string_view input);

  const HttpRequest& request() const { return request_; }

  // Forgets the request, to read the one behind it.
  void next();

  // Something of a request has arrived, and somebody is waited for: the difference between a
  // client that is slow and one that is idle.
  bool in_message() const { return stage_ != Stage::start; }

 private:
  enum class Stage { start, header, body, chunks, complete, failed };
  // (Small enough to be returned in registers.)
  struct Failure {
    int status = 0;
    const char* reason = "";
    explicit operator bool() const { return status != 0; }
  };
  using Place = HttpFields::Place;
  // What the lines of a header have said so far.
  struct Header {
    Place method, target, host, content_type, authorization, length, coding;
    int version = 11;
    int hosts = 0, lengths = 0, codings = 0;
    bool expects_continue = false, expects_other = false;
    bool says_close = false, says_keep_alive = false;
  };
  // And what that means for the body.
  struct Framing {
    std::uint64_t length = 0;
    bool chunked = false;
    bool wants_continue = false;
    bool has_body() const { return chunked || length > 0; }
  };

  Step fail(int status, std::string_view reason);
  std::size_t skip_empty_line(std::string_view input);

  Step parse_header(std::string_view input);
  Failure scan(std::string_view input, std::size_t& length);
  // `text` is a piece of the line that is being read.
  Place place_of(std::string_view text, std::string_view line) const {
    return {static_cast<std::uint32_t>(line_ + static_cast<std::size_t>(text.data() - line.data())),
            static_cast<std::uint32_t>(text.size())};
  }
  Failure read_line(std::string_view line);
  Failure read_request_line(std::string_view line);
  bool target_too_long(std::string_view line) const;
  Failure read_field(std::string_view line);
  bool note_field(std::string_view name, std::string_view value, Place place);
  Failure make_request(const char* header);
  Failure read_framing(const char* header, Framing& framing) const;

  Step begin_body(std::string_view input, std::size_t header, const Framing& framing);
  Step collect_body(std::string_view input);
  Step collect_chunks(std::string_view input);

  // Constant after construction.
  HttpLimits limits_;

  Stage stage_ = Stage::start;
  HttpRequest request_;
  Step failure_;

  Header header_;
  std::vector<HttpFields::Places> places_;

  // In the header: where its current line starts, how far that was searched, lines before it.
  std::size_t line_ = 0;
  std::size_t searched_ = 0;
  std::size_t lines_ = 0;
  bool skipped_line_ = false;

  // Of a request that did not lie whole in the input.
  std::string kept_header_;
  std::string body_;
  std::uint64_t length_ = 0;
  ChunkDecoder chunks_;
};

}  // namespace weir::wire
