#include "wire/resp_reply.h"

#include <charconv>

namespace weir::wire {

namespace {

using Kind = RespValue::Kind;

bool read_number(std::string_view digits, std::int64_t& value) {
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  return !digits.empty() && error == std::errc{} && stop == end;
}

}  // namespace

RespReplyParser::Status RespReplyParser::fail(std::string_view error) {
  error_ = error;
  return Status::error;
}

RespReplyParser::Status RespReplyParser::parse(std::string_view input) {
  count_ = 0;
  at_ = 0;
  const std::string_view readable = input.substr(0, room_.bytes);
  const Status status = parse_value(readable, 0);
  if (status == Status::need_more && readable.size() == room_.bytes) {
    return fail("a reply that is too long");
  }
  return status;
}

RespReplyParser::Status RespReplyParser::parse_line(std::string_view input,
                                                    std::string_view& line) {
  const std::size_t end = input.find('\r', at_);
  if (end == std::string_view::npos || end + 1 == input.size()) return Status::need_more;
  if (input[end + 1] != '\n') return fail("a line that does not end with CRLF");
  line = input.substr(at_, end - at_);
  at_ = end + 2;
  return Status::reply;
}

RespReplyParser::Status RespReplyParser::parse_bulk(std::string_view input, RespValue& value) {
  const std::int64_t length = value.number;
  if (length == -1) {
    value.kind = Kind::null;
    return Status::reply;
  }
  if (length < 0 || length > static_cast<std::int64_t>(room_.bytes)) {
    return fail("a bulk string whose length is out of range");
  }
  const auto bytes = static_cast<std::size_t>(length);
  if (input.size() < at_ + bytes + 2) return Status::need_more;
  value.text = input.substr(at_, bytes);
  at_ += bytes;
  if (input.substr(at_, 2) != "\r\n") return fail("a bulk string that does not end with CRLF");
  at_ += 2;
  return Status::reply;
}

RespReplyParser::Status RespReplyParser::parse_list(std::string_view input, std::size_t depth,
                                                    std::int64_t count) {
  if (count > static_cast<std::int64_t>(room_.values)) {
    return fail("a list whose length is out of range");
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const Status status = parse_value(input, depth + 1);
    if (status != Status::reply) return status;
  }
  return Status::reply;
}

RespReplyParser::Status RespReplyParser::parse_value(std::string_view input, std::size_t depth) {
  if (depth > RespReplyLimits::kDepth) return fail("lists that are nested too deep");
  if (count_ == room_.values) return fail("too many values");
  if (at_ >= input.size()) return Status::need_more;
  const char type = input[at_];
  constexpr std::string_view types = "+-:$*%_>";
  if (types.find(type) == std::string_view::npos)
    return fail("not a RESP reply: its type is unknown");
  ++at_;
  if (count_ == values_.size()) values_.resize(2 * count_);
  RespValue& value = values_[count_++];
  value = {};
  std::string_view line;
  if (const Status status = parse_line(input, line); status != Status::reply) return status;
  if (type == '+' || type == '-') {
    value.kind = type == '+' ? Kind::simple : Kind::error;
    value.text = line;
    return Status::reply;
  }
  if (type == '_') return line.empty() ? Status::reply : fail("a null that is not empty");
  if (!read_number(line, value.number)) return fail("a malformed number");
  switch (type) {
    case '$':
      value.kind = Kind::bulk;
      return parse_bulk(input, value);
    case ':':
      value.kind = Kind::integer;
      return Status::reply;
    default:
      break;
  }
  // RESP2 has null arrays, too.
  if (value.number == -1 && type == '*') return Status::reply;
  const bool is_map = type == '%';
  const auto max_count = static_cast<std::int64_t>(room_.values);
  if (value.number < 0 || value.number > max_count)
    return fail("a list whose length is out of range");
  value.kind = is_map ? Kind::map : type == '>' ? Kind::push : Kind::array;
  if (is_map) value.number *= 2;
  return parse_list(input, depth, value.number);
}

}  // namespace weir::wire
