#include "wire/http1_head.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "wire/http1_text.h"

namespace weir::wire {

namespace {

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

// The HTTP version at the end of a request line.
enum class Version { supported, unsupported, malformed };
Version parse_version(std::string_view text) {
  if (text.size() != 8 || !text.starts_with("HTTP/")) return Version::malformed;
  if (!is_digit(text[5]) || text[6] != '.' || !is_digit(text[7])) return Version::malformed;
  return text[5] == '1' && text[7] <= '1' ? Version::supported : Version::unsupported;
}

// Compares with the usual spelling first, which is faster.
bool is_named(std::string_view name, std::string_view usual) {
  return name == usual || same_ignoring_case(name, usual);
}

// True if a comma-separated list contains `wanted`.
bool list_contains(std::string_view list, std::string_view wanted) {
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    if (same_ignoring_case(trimmed(item), wanted)) return true;
    list.remove_prefix(std::min(item.size() + 1, list.size()));
  }
  return false;
}

}  // namespace

std::string_view HttpRequest::field(std::string_view name) const {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (same_ignoring_case(fields[i].name, name)) return fields[i].value;
  }
  return {};
}

void HttpHead::reset() {
  parsed_ = {};
  slices_.clear();
  line_start_ = searched_ = line_count_ = 0;
}

// Parses each line as soon as it is complete, so that a malformed request is refused at once and
// not after a timeout.
//
// Each check depends only on bytes before the point where it fails: the result is the same however
// the input is cut into reads.
HttpFailure HttpHead::scan(std::string_view input, std::size_t& length) {
  const std::string_view window = input.substr(0, limits_.header);
  for (;;) {
    const std::size_t end = window.find('\n', searched_);
    if (line_count_ == 0 && type_ == MessageType::request &&
        target_too_long(window.substr(0, end))) {
      return {414, "the request target is too long"};
    }
    if (end == std::string_view::npos) break;
    const std::string_view line = window.substr(line_start_, end - line_start_);
    if (const HttpFailure failure = read_line(line)) return failure;
    line_start_ = searched_ = end + 1;
    ++line_count_;
    if (line == "\r") {
      length = line_start_;
      return {};
    }
  }
  searched_ = window.size();
  if (window.size() == limits_.header) return {431, "the header is too large"};
  return {};
}

HttpFailure HttpHead::read_line(std::string_view line) {
  if (line.empty() || line.back() != '\r') return {400, "a header line ends without CR"};
  line.remove_suffix(1);
  if (line_count_ == 0) {
    return type_ == MessageType::request ? read_request_line(line) : read_status_line(line);
  }
  if (line.empty()) return {};
  if (is_space_or_tab(line.front())) return {400, "a header field is folded over two lines"};
  if (line_count_ > limits_.fields) return {431, "there are too many header fields"};
  return read_field(line);
}

HttpFailure HttpHead::read_request_line(std::string_view line) {
  const std::size_t last_space = line.rfind(' ');
  switch (parse_version(line.substr(last_space + 1))) {
    case Version::malformed:
      return {400, "the first line is not a request line of HTTP/1"};
    case Version::unsupported:
      return {505, "the only supported versions are HTTP/1.1 and HTTP/1.0"};
    case Version::supported:
      parsed_.version = line.back() == '0' ? 10 : 11;
      break;
  }
  const std::size_t space = line.find(' ');
  const std::string_view method = line.substr(0, space);
  if (method.empty() || !std::ranges::all_of(method, is_token_char)) {
    return {400, "the method is malformed"};
  }
  const std::string_view target =
      line.substr(0, last_space).substr(std::min(space + 1, last_space));
  if (target.empty() || !std::ranges::all_of(target, is_visible)) {
    return {400, "the request target is malformed"};
  }
  parsed_.method = slice_of(method, line);
  parsed_.target = slice_of(target, line);
  return {};
}

// "HTTP/1.1 200 OK"
HttpFailure HttpHead::read_status_line(std::string_view line) {
  constexpr std::size_t min_size = 12;
  const bool is_valid = line.size() >= min_size &&
                        parse_version(line.substr(0, 8)) == Version::supported && line[8] == ' ' &&
                        line[9] >= '1' && line[9] <= '5' && is_digit(line[10]) &&
                        is_digit(line[11]) && (line.size() == min_size || line[min_size] == ' ');
  if (!is_valid) return {502, "the first line is not a status line of HTTP/1"};
  parsed_.version = line[7] == '0' ? 10 : 11;
  parsed_.status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
  const std::string_view reason = line.substr(std::min(min_size + 1, line.size()));
  if (has_control(reason)) return {502, "the reason phrase holds a control character"};
  parsed_.reason = slice_of(reason, line);
  return {};
}

// Also works on an incomplete line.
bool HttpHead::target_too_long(std::string_view line) const {
  if (line.size() <= limits_.target) [[likely]]
    return false;
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return false;
  const std::string_view target = line.substr(space + 1);
  return std::min(target.find_first_of(" \r"), target.size()) > limits_.target;
}

HttpFailure HttpHead::read_field(std::string_view line) {
  const std::string_view name = line.substr(0, line.find(':'));
  const std::string_view value = trimmed(line.substr(std::min(name.size() + 1, line.size())));
  const HttpFields::FieldSlices slices{slice_of(name, line), slice_of(value, line)};
  const bool recorded = record_field(name, value, slices.value);
  const bool valid_name = recorded || (!name.empty() && std::ranges::all_of(name, is_token_char));
  if (!valid_name || name.size() == line.size())
    return {400, "the name of a header field is malformed"};
  if (has_control(value)) return {400, "the value of a header field holds a control character"};
  slices_.push_back(slices);
  return {};
}

// Records a field that the parser itself understands; false for others. Comparing the length first
// rules out nearly all others.
bool HttpHead::record_field(std::string_view name, std::string_view value, Slice slice) {
  switch (name.size()) {
    case 4:
      if (!is_named(name, "Host")) return false;
      parsed_.host = slice;
      ++parsed_.host_count;
      return true;
    case 6:
      if (!is_named(name, "Expect")) return false;
      (same_ignoring_case(value, "100-continue") ? parsed_.expects_continue
                                                 : parsed_.expects_other) = true;
      return true;
    case 7:
      if (!is_named(name, "Upgrade")) return false;
      parsed_.upgrade = slice;
      ++parsed_.upgrade_count;
      return true;
    case 10:
      if (!is_named(name, "Connection")) return false;
      parsed_.connection_upgrade |= list_contains(value, "upgrade");
      parsed_.connection_close |= list_contains(value, "close");
      parsed_.connection_keep_alive |= list_contains(value, "keep-alive");
      return true;
    case 12:
      if (!is_named(name, "Content-Type")) return false;
      if (parsed_.content_type.size == 0) parsed_.content_type = slice;
      return true;
    case 13:
      if (!is_named(name, "Authorization")) return false;
      if (parsed_.authorization.size == 0) parsed_.authorization = slice;
      return true;
    case 14:
      if (!is_named(name, "Content-Length")) return false;
      parsed_.length = slice;
      ++parsed_.length_count;
      return true;
    case 17:
      if (!is_named(name, "Transfer-Encoding")) return false;
      parsed_.coding = slice;
      ++parsed_.coding_count;
      return true;
    default:
      return false;
  }
}

HttpFailure HttpHead::read_lengths(const char* header, HttpFraming& framing) const {
  if (parsed_.coding_count > 0) {
    // HTTP/1.0 does not define the length of such a message (RFC 9112, 6.1).
    if (parsed_.version == 10) return {400, "HTTP/1.0 has no Transfer-Encoding"};
    if (parsed_.coding_count > 1) return {400, "there is more than one Transfer-Encoding field"};
    if (parsed_.length_count > 0)
      return {400, "Transfer-Encoding and Content-Length are both present"};
    if (!same_ignoring_case(parsed_.coding.in(header), "chunked")) {
      return {501, "the only supported transfer coding is chunked"};
    }
    framing.chunked = true;
  } else if (parsed_.length_count > 0) {
    if (parsed_.length_count > 1) return {400, "there is more than one Content-Length field"};
    const auto length = whole_number(parsed_.length.in(header));
    // Servers behind a proxy often keep lengths as signed 64-bit numbers, which would overflow.
    if (!length || *length > INT64_MAX) return {400, "Content-Length is not a number below 2^63"};
    if (*length > limits_.body) return {413, "the body is too large"};
    framing.length = *length;
  }
  return {};
}

}  // namespace weir::wire
