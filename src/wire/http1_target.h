#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weir::wire {

// The parts of a request target, not decoded.
struct HttpTarget {
  std::string_view authority;  // only of an absolute target
  std::string_view path;       // starts with a slash; "*" for OPTIONS *; empty for CONNECT
  std::string_view query;
};

// Splits a target of the form /path?query or http://host/path?query. Nothing if it is malformed.
std::optional<HttpTarget> split_target(std::string_view method, std::string_view target);

// Percent-decodes `text`. Returns `text` itself if there is nothing to decode, otherwise a view of
// `buffer`, whose memory is reused. Nothing if an escape is malformed.
std::optional<std::string_view> decode_path(std::string_view text, std::string& buffer);

// A query parameter, or the reason why it has no value.
struct QueryValue {
  enum class Status {
    absent,
    found,
    malformed,  // an escape is malformed
    repeated,   // ambiguous: some servers read the first one, some the last
  };
  Status status = Status::absent;
  std::string_view value{};

  explicit operator bool() const { return status == Status::found; }
};

// Finds a parameter in a query such as a=1&b=2 and decodes it: percent escapes, and + as a space.
// The value points into `query` or `buffer`.
QueryValue query_value(std::string_view query, std::string_view name, std::string& buffer);

}  // namespace weir::wire
