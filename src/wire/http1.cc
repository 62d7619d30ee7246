#include "wire/http1.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "wire/http1_target.h"
#include "wire/http1_text.h"

namespace weir::wire {

namespace {

// A buffer that has grown beyond this for one request is not kept for the next: thousands of
// connections may be idle.
constexpr std::size_t kKeptBuffer = 64 * 1024;

bool is_authority(std::string_view text) { return std::ranges::all_of(text, is_authority_char); }

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

HttpParser::HttpParser(HttpLimits limits)
    : limits_(limits), chunks_(ChunkDecoder::Limits{limits.body, limits.header, limits.fields}) {}

HttpParser::Step HttpParser::parse(std::string_view input) {
  switch (stage_) {
    case Stage::start:
    case Stage::header:
      return parse_header(input);
    case Stage::body:
      return collect_body(input);
    case Stage::chunks:
      return collect_chunks(input);
    case Stage::complete:
      return {Status::complete, 0};
    case Stage::failed:
      break;
  }
  return failure_;
}

void HttpParser::next() {
  stage_ = Stage::start;
  header_ = {};
  places_.clear();
  line_ = searched_ = lines_ = 0;
  skipped_line_ = false;
  if (body_.capacity() > kKeptBuffer) std::string{}.swap(body_);
  body_.clear();
  chunks_.reset();
}

HttpParser::Step HttpParser::fail(int status, std::string_view reason) {
  stage_ = Stage::failed;
  failure_ = {Status::error, 0, status, reason};
  return failure_;
}

// Some clients end a body with an empty line too many. One is forgiven before a request.
std::size_t HttpParser::skip_empty_line(std::string_view input) {
  if (stage_ != Stage::start || skipped_line_ || !input.starts_with("\r\n")) return 0;
  skipped_line_ = true;
  return 2;
}

HttpParser::Step HttpParser::parse_header(std::string_view input) {
  const std::size_t skipped = skip_empty_line(input);
  input.remove_prefix(skipped);
  const bool half_a_line = stage_ == Stage::start && !skipped_line_ && input == "\r";
  if (input.empty() || half_a_line) return {Status::need_more, skipped};
  stage_ = Stage::header;
  std::size_t length = 0;
  if (const Failure failure = scan(input, length)) return fail(failure.status, failure.reason);
  if (length == 0) return {Status::need_more, skipped};
  Framing framing;
  if (const Failure failure = make_request(input.data()))
    return fail(failure.status, failure.reason);
  if (const Failure failure = read_framing(input.data(), framing))
    return fail(failure.status, failure.reason);
  Step step = begin_body(input, length, framing);
  step.consumed += skipped;
  return step;
}

// Reads each line when it is complete, so that nonsense is answered at once and not when a
// client has waited for long enough. Leaves `length` zero until the empty line is there.
//
// Each check depends on the bytes up to where it strikes and on nothing behind: however the input
// was cut to pieces, the answer is the same.
HttpParser::Failure HttpParser::scan(std::string_view input, std::size_t& length) {
  const std::string_view window = input.substr(0, limits_.header);
  for (;;) {
    const std::size_t end = window.find('\n', searched_);
    if (lines_ == 0 && target_too_long(window.substr(0, end))) {
      return {414, "the target is too long"};
    }
    if (end == std::string_view::npos) break;
    const std::string_view line = window.substr(line_, end - line_);
    if (const Failure failure = read_line(line)) return failure;
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

HttpParser::Failure HttpParser::read_line(std::string_view line) {
  if (line.empty() || line.back() != '\r') return {400, "a line ends without CR"};
  line.remove_suffix(1);
  if (lines_ == 0) return read_request_line(line);
  if (line.empty()) return {};
  if (is_blank(line.front())) return {400, "a field is folded"};
  if (lines_ > limits_.fields) return {431, "there are too many fields"};
  return read_field(line);
}

HttpParser::Failure HttpParser::read_request_line(std::string_view line) {
  const std::size_t last_space = line.rfind(' ');
  switch (version_of(line.substr(last_space + 1))) {
    case Version::none:
      return {400, "the first line is no request"};
    case Version::other:
      return {505, "this is HTTP/1.1 and 1.0"};
    case Version::ours:
      header_.version = line.back() == '0' ? 10 : 11;
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
  header_.method = place_of(method, line);
  header_.target = place_of(target, line);
  return {};
}

// `line` may still be growing.
bool HttpParser::target_too_long(std::string_view line) const {
  if (line.size() <= limits_.target) [[likely]]
    return false;
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return false;
  const std::string_view target = line.substr(space + 1);
  return std::min(target.find_first_of(" \r"), target.size()) > limits_.target;
}

HttpParser::Failure HttpParser::read_field(std::string_view line) {
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
bool HttpParser::note_field(std::string_view name, std::string_view value, Place place) {
  switch (name.size()) {
    case 4:
      if (!is_named(name, "Host")) return false;
      header_.host = place;
      ++header_.hosts;
      return true;
    case 6:
      if (!is_named(name, "Expect")) return false;
      (same_ignoring_case(value, "100-continue") ? header_.expects_continue
                                                 : header_.expects_other) = true;
      return true;
    case 10:
      if (!is_named(name, "Connection")) return false;
      header_.says_close |= lists(value, "close");
      header_.says_keep_alive |= lists(value, "keep-alive");
      return true;
    case 12:
      if (!is_named(name, "Content-Type")) return false;
      if (header_.content_type.size == 0) header_.content_type = place;
      return true;
    case 13:
      if (!is_named(name, "Authorization")) return false;
      if (header_.authorization.size == 0) header_.authorization = place;
      return true;
    case 14:
      if (!is_named(name, "Content-Length")) return false;
      header_.length = place;
      ++header_.lengths;
      return true;
    case 17:
      if (!is_named(name, "Transfer-Encoding")) return false;
      header_.coding = place;
      ++header_.codings;
      return true;
    default:
      return false;
  }
}

// What the request borrows lies in `header`.
HttpParser::Failure HttpParser::make_request(const char* header) {
  request_.method = header_.method.in(header);
  request_.head = request_.method == "HEAD";
  request_.target = header_.target.in(header);
  request_.content_type = header_.content_type.in(header);
  request_.authorization = header_.authorization.in(header);
  request_.version = header_.version;
  request_.keep_alive = !header_.says_close && (header_.version == 11 || header_.says_keep_alive);
  request_.says_length = header_.lengths > 0 || header_.codings > 0;
  request_.fields = {places_, header};
  request_.body = {};
  const auto target = split_target(request_.method, request_.target);
  if (!target) return {400, "the target is malformed"};
  request_.path = target->path;
  request_.query = target->query;
  if (header_.hosts > 1) return {400, "there are two Host fields"};
  if (header_.hosts == 0 && header_.version == 11) return {400, "there is no Host field"};
  const std::string_view host = header_.host.in(header);
  if (!is_authority(host) || !is_authority(target->authority)) {
    return {400, "the host is malformed"};
  }
  request_.host = target->authority.empty() ? host : target->authority;
  return {};
}

HttpParser::Failure HttpParser::read_framing(const char* header, Framing& framing) const {
  if (header_.expects_other) return {417, "only 100-continue can be expected"};
  if (header_.codings > 0) {
    // What length a request of HTTP/1.0 has then, nobody has said.
    if (header_.version == 10) return {400, "HTTP/1.0 has no Transfer-Encoding"};
    if (header_.codings > 1) return {400, "there are two Transfer-Encoding fields"};
    if (header_.lengths > 0) return {400, "there are Transfer-Encoding and Content-Length"};
    if (!same_ignoring_case(header_.coding.in(header), "chunked")) {
      return {501, "the only transfer coding is chunked"};
    }
    framing.chunked = true;
  } else if (header_.lengths > 0) {
    if (header_.lengths > 1) return {400, "there are two Content-Length fields"};
    const auto length = whole_number(header_.length.in(header));
    if (!length) return {400, "Content-Length is no number"};
    if (*length > limits_.body) return {413, "the body is too large"};
    framing.length = *length;
  }
  framing.wants_continue = header_.expects_continue && header_.version == 11 && framing.has_body();
  return {};
}

HttpParser::Step HttpParser::begin_body(std::string_view input, std::size_t header,
                                        const Framing& framing) {
  const std::string_view rest = input.substr(header);
  length_ = framing.length;
  if (!framing.chunked && rest.size() >= length_) {
    request_.body = rest.substr(0, length_);
    stage_ = Stage::complete;
    return {Status::complete, header + request_.body.size()};
  }
  // The caller's buffer will be used for the body: what points into it has to point elsewhere.
  kept_header_.assign(input.substr(0, header));
  (void)make_request(kept_header_.data());  // as it was made before, without a failure
  stage_ = framing.chunked ? Stage::chunks : Stage::body;
  // Who has sent some of the body does not wait for permission.
  if (framing.wants_continue && rest.empty()) return {Status::wants_continue, header};
  Step step = parse(rest);
  step.consumed += header;
  return step;
}

HttpParser::Step HttpParser::collect_body(std::string_view input) {
  const std::size_t missing = static_cast<std::size_t>(length_) - body_.size();
  const std::string_view piece = input.substr(0, missing);
  body_.append(piece);
  if (piece.size() < missing) return {Status::need_more, piece.size()};
  request_.body = body_;
  stage_ = Stage::complete;
  return {Status::complete, piece.size()};
}

HttpParser::Step HttpParser::collect_chunks(std::string_view input) {
  const ChunkDecoder::Step step = chunks_.decode(input, body_);
  switch (step.status) {
    case ChunkDecoder::Status::need_more:
      return {Status::need_more, step.consumed};
    case ChunkDecoder::Status::error:
      return fail(step.error_status, step.reason);
    case ChunkDecoder::Status::complete:
      break;
  }
  request_.body = body_;
  stage_ = Stage::complete;
  return {Status::complete, step.consumed};
}

}  // namespace weir::wire
