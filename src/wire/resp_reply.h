#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace weir::wire {

// Limits on one reply: a client need not trust the server.
struct RespReplyLimits {
  static constexpr std::size_t kValues = 256;  // in total, at all levels
  static constexpr std::size_t kDepth = 8;
  static constexpr std::size_t kBytes = 60 << 10;
};

// The limits of one parser, where the defaults are too small.
struct RespReplyBounds {
  std::size_t values = RespReplyLimits::kValues;
  std::size_t bytes = RespReplyLimits::kBytes;
};

// One value of a reply.
struct RespValue {
  enum class Kind : std::uint8_t { simple, error, integer, bulk, null, array, map, push };

  Kind kind = Kind::null;
  // The value of an integer; or the number of values that follow and belong to an array, a map
  // (names and values) or a push. A push is a list that the server sends without a request.
  std::int64_t number = 0;
  std::string_view text{};  // the value of simple, error and bulk
};

// Parses replies in RESP2 and RESP3, for clients.
//
// Without I/O: the caller passes all bytes that are not consumed yet. Not thread-safe.
class RespReplyParser {
 public:
  explicit RespReplyParser(RespReplyBounds room = {}) : room_(room) {}

  enum class Status {
    need_more,
    reply,  // values() has it
    error,  // fatal: the rest of the input cannot be parsed
  };

  Status parse(std::string_view input);

  // Bytes of the reply at the front of the input.
  std::size_t consumed() const { return at_; }

  // The reply, followed by its elements if it is a list, depth first. The texts point into the
  // input.
  std::span<const RespValue> values() const { return std::span(values_).first(count_); }
  std::string_view error() const { return error_; }

 private:
  Status parse_value(std::string_view input, std::size_t depth);
  Status parse_bulk(std::string_view input, RespValue& value);
  Status parse_list(std::string_view input, std::size_t depth, std::int64_t count);
  // The line after the type character, without its CRLF.
  Status parse_line(std::string_view input, std::string_view& line);
  Status fail(std::string_view error);

  RespReplyBounds room_;
  std::vector<RespValue> values_ = std::vector<RespValue>(RespReplyLimits::kValues);
  std::size_t count_ = 0;
  std::size_t at_ = 0;
  std::string_view error_;
};

}  // namespace weir::wire
