#include "wire/http1.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <charconv>
#include <functional>
#include <limits>
#include <optional>

#include "wire/http1_target.h"
#include "wire/http1_text.h"

namespace weir::wire {

namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

// A buffer that has grown beyond this for one request is not kept for the next: thousands of
// connections may be idle.
constexpr std::size_t kKeptBuffer = 64 * 1024;

// (Beast's own strings are of a class that differs between its versions.)
template <typename View>
std::string_view view(View text) {
  return {text.data(), text.size()};
}

std::string_view reason_for(const beast::error_code& error) {
  if (error == http::error::bad_method) return "the method is malformed";
  if (error == http::error::bad_target) return "the target is malformed";
  if (error == http::error::bad_version) return "the version is malformed";
  if (error == http::error::bad_field) return "the name of a field is malformed";
  if (error == http::error::bad_value) return "the value of a field is malformed";
  if (error == http::error::bad_line_ending) return "a line ends without LF";
  if (error == http::error::bad_content_length) return "Content-Length is malformed, or not alone";
  if (error == http::error::bad_transfer_encoding) {
    return "Transfer-Encoding is malformed, or not alone";
  }
  return "the header is malformed";
}

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

}  // namespace

// Beast's parser, told to read a header that is there as a whole. It checks every character; what
// the fields mean together is checked here.
struct HttpParser::HeaderReader final : http::basic_parser<true> {
  explicit HeaderReader(std::vector<HttpField>& to) : fields(to) {
    // Both were looked at before.
    header_limit(std::numeric_limits<std::uint32_t>::max());
    body_limit(std::numeric_limits<std::uint64_t>::max());
  }

  std::vector<HttpField>& fields;
  std::string_view method, target, host, length, coding;
  int version = 0;
  int hosts = 0, lengths = 0, codings = 0;
  bool expects_continue = false, expects_other = false, closes = false;

 private:
  using Text = beast::string_view;
  using Code = beast::error_code;

  void on_request_impl(http::verb, Text method_text, Text target_text, int v, Code&) override {
    method = view(method_text);
    target = view(target_text);
    version = v;
  }

  void on_field_impl(http::field id, Text name, Text value_text, Code&) override {
    const std::string_view value = view(value_text);
    fields.push_back({view(name), value});
    if (id == http::field::host) {
      host = value;
      ++hosts;
    } else if (id == http::field::content_length) {
      length = value;
      ++lengths;
    } else if (id == http::field::transfer_encoding) {
      coding = value;
      ++codings;
    } else if (id == http::field::expect) {
      (same_ignoring_case(value, "100-continue") ? expects_continue : expects_other) = true;
    } else if (id == http::field::connection) {
      // (In HTTP/1.0 Beast lets keep-alive win over it.)
      closes = closes || http::token_list(value_text).exists("close");
    }
  }

  // It is never given a body.
  void on_header_impl(Code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, Code&) override {}
  std::size_t on_body_impl(Text body, Code&) override { return body.size(); }
  void on_chunk_header_impl(std::uint64_t, Text, Code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, Text body, Code&) override { return body.size(); }
  void on_finish_impl(Code&) override {}
  void on_response_impl(int, Text, int, Code&) override {}
};

std::string_view HttpRequest::field(std::string_view name) const {
  const auto found = std::ranges::find_if(
      fields, [&](const HttpField& field) { return same_ignoring_case(field.name, name); });
  return found == fields.end() ? std::string_view{} : found->value;
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
  request_ = {};
  fields_.clear();
  line_ = searched_ = lines_ = 0;
  skipped_line_ = false;
  if (body_.capacity() > kKeptBuffer) std::string{}.swap(body_);
  body_.clear();
  chunks_.reset();
}

HttpParser::Step HttpParser::fail(Failure failure) {
  stage_ = Stage::failed;
  failure_ = {Status::error, 0, failure.status, failure.reason};
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
  if (const Failure failure = scan(input, length)) return fail(failure);
  if (length == 0) return {Status::need_more, skipped};
  Framing framing;
  if (const Failure failure = read_header(input.substr(0, length), framing)) return fail(failure);
  Step step = begin_body(input, length, framing);
  step.consumed += skipped;
  return step;
}

// Looks at each line when it is complete, so that nonsense is answered at once and not when a
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
    if (const Failure failure = check_line(line)) return failure;
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

HttpParser::Failure HttpParser::check_line(std::string_view line) {
  if (line.empty() || line.back() != '\r') return {400, "a line ends without CR"};
  line.remove_suffix(1);
  if (lines_ == 0) return check_request_line(line);
  if (line.empty()) return {};
  if (line.front() == ' ' || line.front() == '\t') return {400, "a field is folded"};
  if (lines_ > limits_.fields) return {431, "there are too many fields"};
  return {};
}

HttpParser::Failure HttpParser::check_request_line(std::string_view line) const {
  switch (version_of(line.substr(line.rfind(' ') + 1))) {
    case Version::none:
      return {400, "the first line is no request"};
    case Version::other:
      return {505, "this is HTTP/1.1 and 1.0"};
    case Version::ours:
      break;
  }
  return {};
}

// `line` may still be growing.
bool HttpParser::target_too_long(std::string_view line) const {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return false;
  const std::string_view target = line.substr(space + 1);
  return std::min(target.find_first_of(" \r"), target.size()) > limits_.target;
}

HttpParser::Failure HttpParser::read_header(std::string_view header, Framing& framing) {
  HeaderReader reader(fields_);
  beast::error_code error;
  reader.put(boost::asio::const_buffer(header.data(), header.size()), error);
  if (error) return {400, reason_for(error)};
  if (!reader.is_header_done()) return {400, "the header is malformed"};
  if (const Failure failure = read_target(reader)) return failure;
  request_.fields = fields_;
  request_.version = reader.version;
  request_.keep_alive = reader.keep_alive() && !reader.closes;
  request_.says_length = reader.lengths > 0 || reader.codings > 0;
  return read_framing(reader, framing);
}

HttpParser::Failure HttpParser::read_target(const HeaderReader& reader) {
  request_.method = reader.method;
  request_.head = reader.method == "HEAD";
  request_.target = reader.target;
  const auto target = split_target(reader.method, reader.target);
  if (!target) return {400, "the target is malformed"};
  request_.path = target->path;
  request_.query = target->query;
  if (reader.hosts > 1) return {400, "there are two Host fields"};
  if (reader.hosts == 0 && reader.version == 11) return {400, "there is no Host field"};
  request_.host = target->authority.empty() ? reader.host : target->authority;
  if (!is_authority(reader.host) || !is_authority(request_.host)) {
    return {400, "the host is malformed"};
  }
  return {};
}

HttpParser::Failure HttpParser::read_framing(const HeaderReader& reader, Framing& framing) const {
  if (reader.expects_other) return {417, "only 100-continue can be expected"};
  if (reader.codings > 0) {
    // What length a request of HTTP/1.0 has then, nobody has said.
    if (reader.version == 10) return {400, "HTTP/1.0 has no Transfer-Encoding"};
    if (reader.codings > 1) return {400, "there are two Transfer-Encoding fields"};
    if (reader.lengths > 0) return {400, "there are Transfer-Encoding and Content-Length"};
    if (!same_ignoring_case(reader.coding, "chunked")) {
      return {501, "the only transfer coding is chunked"};
    }
    framing.chunked = true;
  } else if (reader.lengths > 0) {
    if (reader.lengths > 1) return {400, "there are two Content-Length fields"};
    const auto length = whole_number(reader.length);
    if (!length) return {400, "Content-Length is no number"};
    if (*length > limits_.body) return {413, "the body is too large"};
    framing.length = *length;
  }
  framing.wants_continue = reader.expects_continue && reader.version == 11 && framing.has_body();
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
  keep_header(input.substr(0, header));
  stage_ = framing.chunked ? Stage::chunks : Stage::body;
  // Who has sent some of the body does not wait for permission.
  if (framing.wants_continue && rest.empty()) return {Status::wants_continue, header};
  Step step = parse(rest);
  step.consumed += header;
  return step;
}

// The caller's buffer will be used for the body: what points into it has to point elsewhere.
void HttpParser::keep_header(std::string_view header) {
  header_.assign(header);
  const auto move = [&](std::string_view& text) {
    // (Some texts are constants of ours.)
    const std::less_equal<> before;
    if (text.empty() || !before(header.data(), text.data())) return;
    if (!before(text.data() + text.size(), header.data() + header.size())) return;
    text = {header_.data() + (text.data() - header.data()), text.size()};
  };
  for (HttpField& field : fields_) {
    move(field.name);
    move(field.value);
  }
  for (std::string_view* text :
       {&request_.method, &request_.target, &request_.path, &request_.query, &request_.host}) {
    move(*text);
  }
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
      return fail({step.error_status, step.reason});
    case ChunkDecoder::Status::complete:
      break;
  }
  request_.body = body_;
  stage_ = Stage::complete;
  return {Status::complete, step.consumed};
}

}  // namespace weir::wire
