#include "wire/resp.h"

#include <algorithm>
#include <charconv>

#include "base/ascii.h"
#include "base/scratch_buffer.h"

namespace weir::wire {

namespace {

// The position of the next "\r\n", or npos.
std::size_t end_of_line(std::string_view input, std::size_t from) {
  return input.find("\r\n", from);
}

// A length after '*' or '$'.
struct Length {
  enum class Form { valid, malformed, incomplete };
  Form form = Form::valid;
  std::int64_t value = 0;
  std::size_t end = 0;  // offset after its CRLF
};

[[gnu::noinline]] Length read_any_length(std::string_view input, std::size_t at) {
  constexpr std::size_t max_digits = 20;  // more digits than any length has
  const std::string_view rest = input.substr(at, max_digits + 2);
  const std::size_t end = end_of_line(rest, 0);
  if (end == std::string_view::npos) {
    return {.form =
                rest.size() < max_digits + 2 ? Length::Form::incomplete : Length::Form::malformed};
  }
  Length length{.end = at + end + 2};
  const auto [stop, error] = std::from_chars(rest.data(), rest.data() + end, length.value);
  if (error != std::errc{} || stop != rest.data() + end) length.form = Length::Form::malformed;
  return length;
}

// The fast path: most lengths have one or two digits. Inlined, since a command has several.
[[gnu::always_inline]] inline Length read_length(std::string_view input, std::size_t at) {
  if (input.size() < at + 4) [[unlikely]]
    return read_any_length(input, at);
  const char* const text = input.data() + at;
  const auto digit = [&](std::size_t i) { return static_cast<unsigned char>(text[i] - '0'); };
  const auto ends = [&](std::size_t i) { return text[i] == '\r' && text[i + 1] == '\n'; };
  if (digit(0) < 10 && ends(1)) return {.value = digit(0), .end = at + 3};
  if (digit(0) < 10 && digit(1) < 10 && ends(2)) {
    return {.value = digit(0) * 10 + digit(1), .end = at + 4};
  }
  return read_any_length(input, at);
}

std::size_t max_bytes(RespParser::Sender sender) {
  return sender == RespParser::Sender::unauthenticated ? RespLimits::kUnauthenticatedCommandBytes
                                                       : RespLimits::kCommandBytes;
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

char unescaped(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'b':
      return '\b';
    case 'a':
      return '\a';
    default:
      return c;
  }
}

}  // namespace

RespParser::Status RespParser::fail(std::string_view error) {
  error_ = error;
  return Status::error;
}

void RespParser::release_arguments() {
  count_ = 0;
  clear_scratch_buffer(unquoted_);
}

RespParser::Status RespParser::parse(std::string_view input, Sender sender) {
  const std::size_t max_size = max_bytes(sender);
  consumed_ = 0;
  unquoted_.clear();
  for (;;) {
    count_ = 0;
    const std::string_view rest = input.substr(consumed_);
    if (rest.empty()) return Status::need_more;
    const std::size_t before = consumed_;
    const Status status = rest.front() == '*' ? parse_array(rest, sender) : parse_line(rest);
    // The caller's buffer is full.
    if (status == Status::need_more && rest.size() >= max_size) {
      return fail("Protocol error: too big command");
    }
    // Skips empty commands.
    if (status != Status::command || count_ > 0) return status;
    if (consumed_ == before) return Status::need_more;
  }
}

RespParser::Status RespParser::parse_array(std::string_view input, Sender sender) {
  using Form = Length::Form;
  const std::size_t max_size = max_bytes(sender);
  const Length count = read_length(input, 1);
  if (count.form == Form::incomplete) return Status::need_more;
  if (count.form == Form::malformed ||
      count.value > static_cast<std::int64_t>(RespLimits::kArguments)) {
    return fail("Protocol error: invalid multibulk length");
  }
  if (sender == Sender::unauthenticated &&
      count.value > static_cast<std::int64_t>(RespLimits::kUnauthenticatedArguments)) {
    return fail("Protocol error: unauthenticated multibulk length");
  }
  std::size_t at = count.end;
  std::size_t read = 0;
  for (; static_cast<std::int64_t>(read) < count.value; ++read) {
    if (at >= input.size()) return Status::need_more;
    if (input[at] != '$') return fail("Protocol error: expected '$'");
    const Length length = read_length(input, at + 1);
    if (length.form == Form::incomplete) return Status::need_more;
    if (length.form == Form::malformed || length.value < 0 ||
        length.value > static_cast<std::int64_t>(RespLimits::kArgumentBytes)) {
      return fail("Protocol error: invalid bulk length");
    }
    const auto bytes = static_cast<std::size_t>(length.value);
    const std::size_t end = length.end + bytes;
    if (end + 2 > max_size) {
      return fail(sender == Sender::unauthenticated ? "Protocol error: unauthenticated bulk length"
                                                    : "Protocol error: too big command");
    }
    if (input.size() < end + 2) return Status::need_more;
    if (input[end] != '\r' || input[end + 1] != '\n') {
      return fail("Protocol error: expected CRLF after a bulk string");
    }
    arguments_[read] = {input.data() + length.end, bytes};
    at = end + 2;
  }
  count_ = read;
  consumed_ += at;
  return Status::command;
}

// An inline command, as typed into a terminal.
RespParser::Status RespParser::parse_line(std::string_view input) {
  const std::size_t end = input.substr(0, RespLimits::kInlineBytes).find('\n');
  if (end == std::string_view::npos) {
    if (input.size() < RespLimits::kInlineBytes) return Status::need_more;
    return fail("Protocol error: too big inline request");
  }
  consumed_ += end + 1;
  const bool has_return = end > 0 && input[end - 1] == '\r';
  if (split_words(input.substr(0, has_return ? end - 1 : end))) return Status::command;
  return fail(count_ < RespLimits::kArguments ? "Protocol error: unbalanced quotes in request"
                                              : "Protocol error: too many arguments");
}

bool RespParser::split_words(std::string_view line) {
  unquoted_.clear();
  unquoted_.reserve(line.size());  // keeps views into it valid
  std::size_t at = 0;
  for (;;) {
    while (at < line.size() && is_space(line[at])) ++at;
    if (at == line.size()) return true;
    if (count_ == RespLimits::kArguments) return false;
    const std::size_t start = at;
    while (at < line.size() && !is_space(line[at]) && line[at] != '"' && line[at] != '\'') ++at;
    const std::string_view plain = line.substr(start, at - start);
    if (at == line.size() || is_space(line[at])) {
      arguments_[count_++] = plain;
    } else if (!add_quoted(plain, line, at)) {
      return false;
    }
  }
}

// A quote may begin within a word. Double quotes have the escapes \xff, \n and the like, single
// quotes only \'. A closing quote ends the word.
bool RespParser::add_quoted(std::string_view before, std::string_view line, std::size_t& at) {
  const char quote = line[at++];
  const std::size_t start = unquoted_.size();
  unquoted_ += before;
  for (;; ++at) {
    if (at == line.size()) return false;
    char c = line[at];
    if (c == quote) break;
    if (c == '\\' && at + 1 < line.size() && (quote == '"' || line[at + 1] == '\'')) {
      const std::string_view digits = line.substr(at + 1, 3);
      if (quote == '"' && digits.size() == 3 && digits[0] == 'x' && hex_value(digits[1]) >= 0 &&
          hex_value(digits[2]) >= 0) {
        c = static_cast<char>(hex_value(digits[1]) * 16 + hex_value(digits[2]));
        at += 3;
      } else {
        c = unescaped(line[++at]);
      }
    }
    unquoted_ += c;
  }
  ++at;
  if (at < line.size() && !is_space(line[at])) return false;
  arguments_[count_++] = std::string_view(unquoted_).substr(start);
  return true;
}

// ---- Writing

void RespWriter::head(char type, std::int64_t value) {
  std::array<char, 24> text;
  text[0] = type;
  char* const end = std::to_chars(text.data() + 1, text.data() + 22, value).ptr;
  end[0] = '\r';
  end[1] = '\n';
  out_.append(text.data(), static_cast<std::size_t>(end + 2 - text.data()));
}

void RespWriter::simple(std::string_view text) {
  out_ += '+';
  out_ += text;
  out_ += "\r\n";
}

void RespWriter::error(std::string_view text) {
  out_ += '-';
  const std::size_t start = out_.size();
  out_ += text;
  // The text may quote client input, and must not end the line (response injection).
  std::replace_if(
      out_.begin() + static_cast<std::ptrdiff_t>(start), out_.end(),
      [](char c) { return c == '\r' || c == '\n'; }, ' ');
  out_ += "\r\n";
}

void RespWriter::integer(std::int64_t value) { head(':', value); }

void RespWriter::bulk(std::string_view text) {
  head('$', static_cast<std::int64_t>(text.size()));
  out_ += text;
  out_ += "\r\n";
}

void RespWriter::null() { out_ += protocol_ >= 3 ? "_\r\n" : "$-1\r\n"; }

void RespWriter::array(std::size_t count) { head('*', static_cast<std::int64_t>(count)); }

void RespWriter::map(std::size_t count) {
  if (protocol_ >= 3) return head('%', static_cast<std::int64_t>(count));
  array(count * 2);
}

}  // namespace weir::wire
