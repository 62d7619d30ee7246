#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weir::wire {

// Limits on one command.
struct RespLimits {
  static constexpr std::size_t kArguments = 64;
  static constexpr std::size_t kArgumentBytes = 16 << 10;
  static constexpr std::size_t kCommandBytes = 64 << 10;
  static constexpr std::size_t kInlineBytes = 16 << 10;
  // Limits before authentication, where it is required. Redis limits arguments to ten likewise, and
  // each argument, but not the command, to 16 KiB.
  static constexpr std::size_t kUnauthenticatedArguments = 10;
  static constexpr std::size_t kUnauthenticatedCommandBytes = 16 << 10;
};

// Parses commands in Redis' protocol (RESP): arrays of bulk strings, or inline commands.
//
// Without I/O: the caller passes all bytes that are not consumed yet. Not thread-safe.
class RespParser {
 public:
  enum class Status {
    need_more,
    command,  // arguments() has it; there is at least one
    error,    // fatal: the rest of the input cannot be parsed
  };

  enum class Sender { authenticated, unauthenticated };
  Status parse(std::string_view input, Sender sender = Sender::authenticated);

  // Bytes consumed from the front of the input: the command, and empty ones before it.
  std::size_t consumed() const { return consumed_; }

  // The views point into the input or, for quoted words, into the parser.
  std::span<const std::string_view> arguments() const {
    return std::span(arguments_).first(count_);
  }
  // True if some arguments point into the parser: they are valid until the next parse().
  bool owns_arguments() const { return !unquoted_.empty(); }
  // Drops the arguments, and frees the parser's buffer if it is large.
  void release_arguments();
  std::string_view error() const { return error_; }
  // Bytes of its buffer.
  std::size_t memory() const { return unquoted_.capacity(); }

 private:
  Status parse_array(std::string_view input, Sender sender);
  Status parse_line(std::string_view input);
  bool split_words(std::string_view line);
  bool add_quoted(std::string_view before, std::string_view line, std::size_t& at);
  Status fail(std::string_view error);

  std::array<std::string_view, RespLimits::kArguments> arguments_{};
  std::size_t count_ = 0;
  std::size_t consumed_ = 0;
  std::string_view error_;
  std::string unquoted_;  // the quoted words, unescaped
};

// Writes replies in RESP2 or RESP3.
class RespWriter {
 public:
  RespWriter(std::string& out, int protocol) : out_(out), protocol_(protocol) {}

  int protocol() const { return protocol_; }

  void simple(std::string_view text);
  // `text` begins with an error code in upper case, as clients expect: "ERR no such policy".
  void error(std::string_view text);
  void integer(std::int64_t value);
  void bulk(std::string_view text);
  void null();
  void array(std::size_t count);
  // A map of `count` pairs in RESP3; an array of names and values in RESP2.
  void map(std::size_t count);

 private:
  void head(char type, std::int64_t value);

  std::string& out_;
  int protocol_;
};

}  // namespace weir::wire
