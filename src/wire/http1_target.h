#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weir::wire {

// A request target, taken apart but not decoded.
struct HttpTarget {
  std::string_view authority;  // only of an absolute target
  std::string_view path;       // starts with a slash; "*" of OPTIONS *; empty of CONNECT
  std::string_view query;
};

// Nothing if it is none: neither /path?query nor http://host/path?query.
std::optional<HttpTarget> split_target(std::string_view method, std::string_view target);

// `text` with its %41 undone. A text without any is returned as it is, otherwise the answer is made
// in `buffer`, whose memory is used again. Nothing if an escape is malformed.
std::optional<std::string_view> decode_path(std::string_view text, std::string& buffer);

// One value of a query, and why there is none.
struct QueryValue {
  enum class Status {
    absent,
    found,
    malformed,  // an escape is
    repeated,   // there are two: who reads the first would disagree with who reads the last
  };
  Status status = Status::absent;
  std::string_view value{};

  explicit operator bool() const { return status == Status::found; }
};

// The value of that name in a=1&b=2, with %41 undone and + as a space, as forms have it. It lies in
// `query` or in `buffer`.
QueryValue query_value(std::string_view query, std::string_view name, std::string& buffer);

}  // namespace weir::wire
