#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

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
  int version = 11;        // 10 or 11; 20: it came by HTTP/2
  bool keep_alive = true;  // what the client wants
  bool head = false;       // answer without the body
  // Whether it says how long its body is. One that does not has none; where one is needed, the
  // answer is 411.
  bool says_length = false;

  // The first value of that name, whatever its case; empty if there is none.
  std::string_view field(std::string_view name) const;
};

// How the body behind a head is delimited.
struct HttpFraming {
  std::uint64_t length = 0;
  bool chunked = false;
  bool until_end = false;       // of the connection (of answers), or of the stream (HTTP/2)
  bool wants_continue = false;  // who sends it waits to be told to

  bool has_body() const { return chunked || until_end || length > 0; }
};

// What is wrong with a message. (Small enough to be returned in registers.)
struct HttpFailure {
  int status = 0;
  const char* reason = "";
  explicit operator bool() const { return status != 0; }
};

// Reads the lines of a head as they come. Keeps none of their texts, only their places, since the
// input may move before it is complete. Not thread-safe.
class HttpHead {
 public:
  enum class Kind { request, answer };
  using Place = HttpFields::Place;

  HttpHead(Kind kind, const HttpLimits& limits) : kind_(kind), limits_(limits) {}

  // `input` starts with the head. Leaves `length` zero until the empty line is there.
  HttpFailure scan(std::string_view input, std::size_t& length);
  void reset();

  // What the lines have said so far.
  struct Said {
    Place method, target, host, content_type, authorization, length, coding, reason, upgrade;
    int version = 11;
    int status = 0;
    int hosts = 0, lengths = 0, codings = 0, upgrades = 0;
    bool expects_continue = false, expects_other = false;
    bool says_close = false, says_keep_alive = false, says_upgrade = false;
  };
  const Said& said() const { return said_; }
  const std::vector<HttpFields::Places>& places() const { return places_; }
  bool keep_alive() const {
    return !said_.says_close && (said_.version == 11 || said_.says_keep_alive);
  }
  // How the body is delimited, as far as both kinds have it in common: by chunks or a length.
  HttpFailure read_lengths(const char* header, HttpFraming& framing) const;

 private:
  Place place_of(std::string_view text, std::string_view line) const {
    return {static_cast<std::uint32_t>(line_ + static_cast<std::size_t>(text.data() - line.data())),
            static_cast<std::uint32_t>(text.size())};
  }
  HttpFailure read_line(std::string_view line);
  HttpFailure read_request_line(std::string_view line);
  HttpFailure read_status_line(std::string_view line);
  bool target_too_long(std::string_view line) const;
  HttpFailure read_field(std::string_view line);
  bool note_field(std::string_view name, std::string_view value, Place place);

  // Constant after construction.
  Kind kind_;
  HttpLimits limits_;

  Said said_;
  std::vector<HttpFields::Places> places_;
  // Where its current line starts, how far that was searched, lines before it.
  std::size_t line_ = 0;
  std::size_t searched_ = 0;
  std::size_t lines_ = 0;
};

}  // namespace weir::wire
