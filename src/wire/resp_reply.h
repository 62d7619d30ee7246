#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace weir::wire {

// What a server may answer to one command. Whoever asks does not have to trust whom it asks.
struct RespReplyLimits {
  static constexpr std::size_t kValues = 256;  // in all, however deep
  static constexpr std::size_t kDepth = 8;
  static constexpr std::size_t kBytes = 60 << 10;
};

// For whom that is not enough: how much an answer may be.
struct RespReplyRoom {
  std::size_t values = RespReplyLimits::kValues;
  std::size_t bytes = RespReplyLimits::kBytes;
};

// One value of an answer.
struct RespValue {
  enum class Kind : std::uint8_t { simple, error, integer, bulk, null, array, map, push };

  Kind kind = Kind::null;
  // Of an integer; how many values follow that belong to a list, a map or a push. (A push is a list
  // that nobody asked for.)
  std::int64_t number = 0;
  std::string_view text{};  // of simple, error, bulk
};

// Reads answers as RESP2 and RESP3 have them, for those who ask.
//
// Without I/O: it is shown all bytes that have not been used up, and says what it makes of them.
// Not thread-safe.
class RespReplyParser {
 public:
  explicit RespReplyParser(RespReplyRoom room = {}) : room_(room) {}

  enum class Status {
    need_more,
    reply,  // `values` has it
    error,  // nothing that follows can be understood
  };

  Status parse(std::string_view input);

  // What the answer takes of the input, in front.
  std::size_t consumed() const { return at_; }

  // The answer, then, if it is a list, what is in it, and so on inwards. Borrowed from the input.
  std::span<const RespValue> values() const { return std::span(values_).first(count_); }
  std::string_view error() const { return error_; }

 private:
  Status parse_value(std::string_view input, std::size_t depth);
  Status parse_bulk(std::string_view input, RespValue& value);
  Status parse_list(std::string_view input, std::size_t depth, std::int64_t count);
  // A line behind its type, without its end.
  Status parse_line(std::string_view input, std::string_view& line);
  Status fail(std::string_view error);

  RespReplyRoom room_;
  std::vector<RespValue> values_ = std::vector<RespValue>(RespReplyLimits::kValues);
  std::size_t count_ = 0;
  std::size_t at_ = 0;
  std::string_view error_;
};

}  // namespace weir::wire
