#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace weir::wire {

// Limits on a request, in bytes. Each comment has the status of the response when it is exceeded.
struct HttpLimits {
  std::size_t target = 8 * 1024;  // the request target: 414
  std::size_t header =
      16 * 1024;  // request line and fields together; the same again for trailers: 431
  std::size_t body = 1024 * 1024;  // without chunk sizes and extensions: 413
  std::size_t fields = 100;        // number of fields; the same again for trailers: 431
};

struct HttpField {
  std::string_view name;
  std::string_view value;
};

// The fields of a header, in order. Stored as offsets, since the buffer may move before the header
// is complete, and most fields are never read.
class HttpFields {
 public:
  struct Slice {
    std::uint32_t start = 0;
    std::uint32_t size = 0;
    std::string_view in(const char* header) const { return {header + start, size}; }
  };
  struct FieldSlices {
    Slice name;
    Slice value;
  };

  HttpFields() = default;
  HttpFields(std::span<const FieldSlices> slices, const char* header)
      : slices_(slices), header_(header) {}

  std::size_t size() const { return slices_.size(); }
  HttpField operator[](std::size_t i) const {
    return {slices_[i].name.in(header_), slices_[i].value.in(header_)};
  }

 private:
  std::span<const FieldSlices> slices_;
  const char* header_ = nullptr;
};

// A request. Its views point into the parser, and into the input of the parse() that completed it:
// they are valid until either is used again.
struct HttpRequest {
  std::string_view method;
  std::string_view target;        // as received
  std::string_view path;          // of the target, percent-encoded; "*" for OPTIONS *
  std::string_view query;         // after the question mark, percent-encoded
  std::string_view host;          // the field, or the authority of an absolute target; may be empty
  std::string_view content_type;  // the first one; empty if there is none
  std::string_view authorization;  // the first one; empty if there is none
  std::string_view body;
  HttpFields fields;
  int version = 11;        // 10 or 11; 20 for HTTP/2
  bool keep_alive = true;  // the client wants a persistent connection
  bool head = false;       // the method is HEAD: respond without the body
  // True if it has Content-Length or Transfer-Encoding. Without them it has no body; where one is
  // needed, the response is 411.
  bool declares_length = false;

  // The first value of that name (case-insensitive); empty if there is none.
  std::string_view field(std::string_view name) const;
};

// How the body of a message is delimited.
struct HttpFraming {
  std::uint64_t length = 0;
  bool chunked = false;
  bool until_end = false;       // by the end of the connection (responses), or of the HTTP/2 stream
  bool wants_continue = false;  // the client waits for 100 Continue before it sends the body

  bool has_body() const { return chunked || until_end || length > 0; }
};

// Why a message is refused. Small enough to be returned in registers.
struct HttpFailure {
  int status = 0;
  const char* reason = "";
  explicit operator bool() const { return status != 0; }
};

// Parses the start line and fields of a message line by line, as they arrive. Stores offsets
// instead of text, since the input may move before the head is complete. Not thread-safe.
class HttpHead {
 public:
  enum class MessageType { request, response };
  using Slice = HttpFields::Slice;

  HttpHead(MessageType type, const HttpLimits& limits) : type_(type), limits_(limits) {}

  // `input` starts with the head, and is passed again with more until the head is complete. Sets
  // `length` to the head's size when the empty line has arrived; it stays zero before.
  HttpFailure scan(std::string_view input, std::size_t& length);
  void reset();

  // The fields that the parser itself understands, as far as they have arrived.
  struct ParsedHead {
    Slice method, target, host, content_type, authorization, length, coding, reason, upgrade;
    int version = 11;
    int status = 0;
    int host_count = 0, length_count = 0, coding_count = 0, upgrade_count = 0;
    bool expects_continue = false, expects_other = false;
    bool connection_close = false, connection_keep_alive = false, connection_upgrade = false;
  };
  const ParsedHead& parsed() const { return parsed_; }
  const std::vector<HttpFields::FieldSlices>& slices() const { return slices_; }
  bool keep_alive() const {
    return !parsed_.connection_close && (parsed_.version == 11 || parsed_.connection_keep_alive);
  }
  // The framing rules that requests and responses share: chunks or a length.
  HttpFailure read_lengths(const char* header, HttpFraming& framing) const;

 private:
  Slice slice_of(std::string_view text, std::string_view line) const {
    return {static_cast<std::uint32_t>(line_start_ +
                                       static_cast<std::size_t>(text.data() - line.data())),
            static_cast<std::uint32_t>(text.size())};
  }
  HttpFailure read_line(std::string_view line);
  HttpFailure read_request_line(std::string_view line);
  HttpFailure read_status_line(std::string_view line);
  bool target_too_long(std::string_view line) const;
  HttpFailure read_field(std::string_view line);
  bool record_field(std::string_view name, std::string_view value, Slice slice);

  // Constant after construction.
  MessageType type_;
  HttpLimits limits_;

  ParsedHead parsed_;
  std::vector<HttpFields::FieldSlices> slices_;
  std::size_t line_start_ = 0;  // offset of the current line
  std::size_t searched_ = 0;    // offset up to which it was searched for its end
  std::size_t line_count_ = 0;  // lines before it
};

}  // namespace weir::wire
