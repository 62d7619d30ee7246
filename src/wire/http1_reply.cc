#include "wire/http1_reply.h"

#include <charconv>

#include "wire/http1_text.h"

namespace weir::wire {

HttpReplyParser::Status HttpReplyParser::fail(std::string_view error) {
  error_ = error;
  return Status::error;
}

HttpReplyParser::Status HttpReplyParser::parse(std::string_view input) {
  consumed_ = 0;
  body_ = {};
  const std::string_view readable = input.substr(0, HttpReplyLimits::kHeadBytes);
  const std::size_t end = readable.find("\r\n\r\n");
  if (end == std::string_view::npos) {
    constexpr std::string_view start = "HTTP/1.";
    if (readable.substr(0, start.size()) != start.substr(0, readable.size())) {
      return fail("an answer that is not HTTP/1.1");
    }
    if (readable.size() == HttpReplyLimits::kHeadBytes) return fail("a header that is too long");
    return Status::need_more;
  }
  const Status status = parse_head(readable.substr(0, end));
  if (status != Status::reply) return status;
  const std::size_t start = end + 4;
  const auto length = static_cast<std::size_t>(length_);
  if (input.size() - start < length) return Status::need_more;
  body_ = input.substr(start, length);
  consumed_ = start + length;
  return Status::reply;
}

HttpReplyParser::Status HttpReplyParser::parse_head(std::string_view head) {
  length_ = -1;
  std::size_t at = std::min(head.find("\r\n"), head.size());
  if (const Status status = parse_status_line(head.substr(0, at)); status != Status::reply) {
    return status;
  }
  while (at < head.size()) {
    at += 2;
    const std::size_t end = std::min(head.find("\r\n", at), head.size());
    if (const Status status = parse_field(head.substr(at, end - at)); status != Status::reply) {
      return status;
    }
    at = end;
  }
  if (code_ == 204 || code_ == 304) length_ = 0;
  return length_ >= 0 ? Status::reply : fail("an answer without Content-Length");
}

// "HTTP/1.1 200 OK"
HttpReplyParser::Status HttpReplyParser::parse_status_line(std::string_view line) {
  constexpr std::size_t shortest = 12;
  const bool good = line.size() >= shortest && line.starts_with("HTTP/1.") && is_digit(line[7]) &&
                    line[8] == ' ' && is_digit(line[9]) && is_digit(line[10]) &&
                    is_digit(line[11]) && (line.size() == shortest || line[shortest] == ' ');
  if (!good) return fail("an answer that is not HTTP/1.1");
  code_ = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
  closes_ = line[7] == '0';
  return Status::reply;
}

HttpReplyParser::Status HttpReplyParser::parse_field(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return fail("a field without a name");
  const std::string_view name = line.substr(0, colon);
  // Told apart by their lengths first: most are none of these.
  if (name.size() == 14 && same_ignoring_case(name, "content-length")) {
    const std::string_view digits = trimmed(line.substr(colon + 1));
    std::int64_t length = 0;
    const char* const end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, length);
    const bool good = !digits.empty() && is_digit(digits.front()) && error == std::errc{} &&
                      stop == end && (length_ < 0 || length_ == length);
    if (!good) return fail("a Content-Length that is none");
    if (length > static_cast<std::int64_t>(HttpReplyLimits::kBodyBytes)) {
      return fail("a body that is too long");
    }
    length_ = length;
  } else if (name.size() == 17 && same_ignoring_case(name, "transfer-encoding")) {
    return fail("an answer in chunks");
  } else if (name.size() == 10 && same_ignoring_case(name, "connection")) {
    const std::string_view value = trimmed(line.substr(colon + 1));
    if (same_ignoring_case(value, "close")) closes_ = true;
    if (same_ignoring_case(value, "keep-alive")) closes_ = false;
  }
  return Status::reply;
}

}  // namespace weir::wire
