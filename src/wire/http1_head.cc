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

// Whether the last part of the request line is a version; which, if it is one of ours.
enum class Version { ours, other, none };
Version version_of(std::string_view text) {
  if (text.size() != 8 || !text.starts_with("HTTP/")) return Version::none;
  if (!is_digit(text[5]) || text[6] != '.' || !is_digit(text[7])) return Version::none;
  return text[5] == '1' && text[7] <= '1' ? Version::ours : Version::other;
}

bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// `usual` is how nearly everybody spells it.
bool is_named(std::string_view name, std::string_view usual) {
  return name == usual || same_ignoring_case(name, usual);
}

// Whether a list like "a, b" has `wanted`.
bool lists(std::string_view list, std::string_view wanted) {
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    if (same_ignoring_case(without_blanks(item), wanted)) return true;
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
  said_ = {};
  places_.clear();
  line_ = searched_ = lines_ = 0;
}

// Reads each line when it is complete, so that nonsense is answered at once and not when a
// client has waited for long enough. Leaves `length` zero until the empty line is there.
//
// Each check depends on the bytes up to where it strikes and on nothing behind: however the input
// was cut to pieces, the answer is the same.
HttpFailure HttpHead::scan(std::string_view input, std::size_t& length) {
  const std::string_view window = input.substr(0, limits_.header);
  for (;;) {
    const std::size_t end = window.find('\n', searched_);
    if (lines_ == 0 && kind_ == Kind::request && target_too_long(window.substr(0, end))) {
      return {414, "the target is too long"};
    }
    if (end == std::string_view::npos) break;
    const std::string_view line = window.substr(line_, end - line_);
    if (const HttpFailure failure = read_line(line)) return failure;
    line_ = searched_ = end + 1;
    ++lines_;
    if (line == "\r") {
      length = line_;
      return {};
    }
  }
  searched_ = window.size();
  if (window.size() == limits_.header) return {431, "the header is too large"};
  return {};
}

HttpFailure HttpHead::read_line(std::string_view line) {
  if (line.empty() || line.back() != '\r') return {400, "a line ends without CR"};
  line.remove_suffix(1);
  if (lines_ == 0) {
    return kind_ == Kind::request ? read_request_line(line) : read_status_line(line);
  }
  if (line.empty()) return {};
  if (is_blank(line.front())) return {400, "a field is folded"};
  if (lines_ > limits_.fields) return {431, "there are too many fields"};
  return read_field(line);
}

HttpFailure HttpHead::read_request_line(std::string_view line) {
  const std::size_t last_space = line.rfind(' ');
  switch (version_of(line.substr(last_space + 1))) {
    case Version::none:
      return {400, "the first line is no request"};
    case Version::other:
      return {505, "this is HTTP/1.1 and 1.0"};
    case Version::ours:
      said_.version = line.back() == '0' ? 10 : 11;
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
    return {400, "the target is malformed"};
  }
  said_.method = place_of(method, line);
  said_.target = place_of(target, line);
  return {};
}

// "HTTP/1.1 200 OK"
HttpFailure HttpHead::read_status_line(std::string_view line) {
  constexpr std::size_t shortest = 12;
  const bool good = line.size() >= shortest && version_of(line.substr(0, 8)) == Version::ours &&
                    line[8] == ' ' && line[9] >= '1' && line[9] <= '5' && is_digit(line[10]) &&
                    is_digit(line[11]) && (line.size() == shortest || line[shortest] == ' ');
  if (!good) return {502, "the first line is no answer of HTTP/1.1"};
  said_.version = line[7] == '0' ? 10 : 11;
  said_.status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
  const std::string_view reason = line.substr(std::min(shortest + 1, line.size()));
  if (has_control(reason)) return {502, "the first line is malformed"};
  said_.reason = place_of(reason, line);
  return {};
}

// `line` may still be growing.
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
  const std::string_view value =
      without_blanks(line.substr(std::min(name.size() + 1, line.size())));
  const HttpFields::Places places{place_of(name, line), place_of(value, line)};
  const bool known = note_field(name, value, places.value);
  const bool named = known || (!name.empty() && std::ranges::all_of(name, is_token_char));
  if (!named || name.size() == line.size()) return {400, "the name of a field is malformed"};
  if (has_control(value)) return {400, "the value of a field is malformed"};
  places_.push_back(places);
  return {};
}

// Whether it is one of those that mean something here. Nearly all others are told from them by
// their length.
bool HttpHead::note_field(std::string_view name, std::string_view value, Place place) {
  switch (name.size()) {
    case 4:
      if (!is_named(name, "Host")) return false;
      said_.host = place;
      ++said_.hosts;
      return true;
    case 6:
      if (!is_named(name, "Expect")) return false;
      (same_ignoring_case(value, "100-continue") ? said_.expects_continue : said_.expects_other) =
          true;
      return true;
    case 7:
      if (!is_named(name, "Upgrade")) return false;
      said_.upgrade = place;
      ++said_.upgrades;
      return true;
    case 10:
      if (!is_named(name, "Connection")) return false;
      said_.says_upgrade |= lists(value, "upgrade");
      said_.says_close |= lists(value, "close");
      said_.says_keep_alive |= lists(value, "keep-alive");
      return true;
    case 12:
      if (!is_named(name, "Content-Type")) return false;
      if (said_.content_type.size == 0) said_.content_type = place;
      return true;
    case 13:
      if (!is_named(name, "Authorization")) return false;
      if (said_.authorization.size == 0) said_.authorization = place;
      return true;
    case 14:
      if (!is_named(name, "Content-Length")) return false;
      said_.length = place;
      ++said_.lengths;
      return true;
    case 17:
      if (!is_named(name, "Transfer-Encoding")) return false;
      said_.coding = place;
      ++said_.codings;
      return true;
    default:
      return false;
  }
}

HttpFailure HttpHead::read_lengths(const char* header, HttpFraming& framing) const {
  if (said_.codings > 0) {
    // What length a message of HTTP/1.0 has then, nobody has said.
    if (said_.version == 10) return {400, "HTTP/1.0 has no Transfer-Encoding"};
    if (said_.codings > 1) return {400, "there are two Transfer-Encoding fields"};
    if (said_.lengths > 0) return {400, "there are Transfer-Encoding and Content-Length"};
    if (!same_ignoring_case(said_.coding.in(header), "chunked")) {
      return {501, "the only transfer coding is chunked"};
    }
    framing.chunked = true;
  } else if (said_.lengths > 0) {
    if (said_.lengths > 1) return {400, "there are two Content-Length fields"};
    const auto length = whole_number(said_.length.in(header));
    // (Many servers keep lengths in 63 bits, and would wrap around.)
    if (!length || *length > INT64_MAX) return {400, "Content-Length is not a number below 2^63"};
    if (*length > limits_.body) return {413, "the body is too large"};
    framing.length = *length;
  }
  return {};
}

}  // namespace weir::wire
