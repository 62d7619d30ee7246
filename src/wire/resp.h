#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weir::wire {

// What a stranger may send in one command.
struct RespLimits {
  static constexpr std::size_t kArguments = 64;
  static constexpr std::size_t kArgumentBytes = 16 << 10;
  static constexpr std::size_t kCommandBytes = 64 << 10;
  static constexpr std::size_t kInlineBytes = 16 << 10;
  // Before it has authenticated, where it has to. (Redis has these two, and no other: a command of
  // ten arguments of 16 KiB.)
  static constexpr std::size_t kStrangersArguments = 10;
  static constexpr std::size_t kStrangersCommandBytes = 16 << 10;
};

// Reads commands as Redis clients send them: arrays of bulk strings, or a line of words.
//
// Without I/O: it is shown all bytes that have not been used up, and says what it makes of them.
// Not thread-safe.
class RespParser {
 public:
  enum class Status {
    need_more,
    command,  // `arguments` has it; there is at least one
    error,    // nothing that follows can be understood
  };

  enum class Sender { authenticated, stranger };
  Status parse(std::string_view input, Sender sender = Sender::authenticated);

  // What was used up of the input, in front: the command, and whatever was empty before it.
  std::size_t consumed() const { return consumed_; }

  // Borrowed from the input, or, for quoted words, from the parser.
  std::span<const std::string_view> arguments() const {
    return std::span(arguments_).first(count_);
  }
  // Whether they were put together by the parser, and end with the next `parse`.
  bool owns_arguments() const { return !unquoted_.empty(); }
  // Forgets them, and does not keep much memory of those that it owns.
  void release_arguments();
  std::string_view error() const { return error_; }
  // Bytes that it holds.
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
  std::string unquoted_;  // bytes of quoted words
};

// Writes answers, in the words of RESP2 or RESP3.
class RespWriter {
 public:
  RespWriter(std::string& out, int protocol) : out_(out), protocol_(protocol) {}

  int protocol() const { return protocol_; }

  void simple(std::string_view text);
  // Starts with an upper-case word, as clients expect: "ERR no such policy".
  void error(std::string_view text);
  void integer(std::int64_t value);
  void bulk(std::string_view text);
  void null();
  void array(std::size_t count);
  // A map in RESP3; in RESP2 the names and values one after the other.
  void map(std::size_t count);

 private:
  void head(char type, std::int64_t value);

  std::string& out_;
  int protocol_;
};

}  // namespace weir::wire
