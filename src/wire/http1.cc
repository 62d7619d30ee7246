#include "wire/http1.h"

#include <algorithm>

#include "base/scratch_buffer.h"
#include "wire/http1_target.h"
#include "wire/http1_text.h"

namespace weir::wire {

namespace {

bool is_authority(std::string_view text) { return std::ranges::all_of(text, is_authority_char); }

}  // namespace

HttpParser::HttpParser(HttpLimits limits, BodyMode body_mode)
    : limits_(limits),
      body_mode_(body_mode),
      head_(HttpHead::MessageType::request, limits),
      chunks_(ChunkDecoder::ChunkLimits{limits.body, limits.header, limits.fields}) {}

HttpParser::ParseResult HttpParser::parse(std::string_view input) {
  switch (stage_) {
    case ParseStage::start:
    case ParseStage::header:
      return parse_header(input);
    case ParseStage::body:
      return collect_body(input);
    case ParseStage::chunks:
      return collect_chunks(input);
    case ParseStage::complete:
      return {Status::complete, 0};
    case ParseStage::failed:
      break;
  }
  return failure_;
}

void HttpParser::next() {
  stage_ = ParseStage::start;
  head_.reset();
  skipped_line_ = false;
  clear_scratch_buffer(kept_header_);
  clear_scratch_buffer(body_);
  chunks_.reset();
}

HttpParser::ParseResult HttpParser::fail(int status, std::string_view reason) {
  stage_ = ParseStage::failed;
  failure_ = {Status::error, 0, status, reason};
  return failure_;
}

// Some clients send an extra empty line after a body: one is skipped before a request (RFC
// 9112, 2.2).
std::size_t HttpParser::skip_empty_line(std::string_view input) {
  if (stage_ != ParseStage::start || skipped_line_ || !input.starts_with("\r\n")) return 0;
  skipped_line_ = true;
  return 2;
}

HttpParser::ParseResult HttpParser::parse_header(std::string_view input) {
  const std::size_t skipped = skip_empty_line(input);
  input.remove_prefix(skipped);
  const bool is_partial_line = stage_ == ParseStage::start && !skipped_line_ && input == "\r";
  if (input.empty() || is_partial_line) return {Status::need_more, skipped};
  stage_ = ParseStage::header;
  std::size_t length = 0;
  if (const HttpFailure failure = head_.scan(input, length))
    return fail(failure.status, failure.reason);
  if (length == 0) return {Status::need_more, skipped};
  if (const HttpFailure failure = make_request(input.data()))
    return fail(failure.status, failure.reason);
  if (const HttpFailure failure = read_framing(input.data()))
    return fail(failure.status, failure.reason);
  ParseResult step = begin_body(input, length);
  step.consumed += skipped;
  return step;
}

// The views of the request point into `header`.
HttpFailure HttpParser::make_request(const char* header) {
  const HttpHead::ParsedHead& parsed = head_.parsed();
  request_.method = parsed.method.in(header);
  request_.head = request_.method == "HEAD";
  request_.target = parsed.target.in(header);
  request_.content_type = parsed.content_type.in(header);
  request_.authorization = parsed.authorization.in(header);
  request_.version = parsed.version;
  request_.keep_alive = head_.keep_alive();
  request_.declares_length = parsed.length_count > 0 || parsed.coding_count > 0;
  request_.fields = {head_.slices(), header};
  request_.body = {};
  upgrade_ = parsed.connection_upgrade && parsed.upgrade_count == 1 ? parsed.upgrade.in(header)
                                                                    : std::string_view{};
  const auto target = split_target(request_.method, request_.target);
  if (!target) return {400, "the request target is malformed"};
  request_.path = target->path;
  request_.query = target->query;
  if (parsed.host_count > 1) return {400, "there is more than one Host field"};
  if (parsed.host_count == 0 && parsed.version == 11) return {400, "there is no Host field"};
  const std::string_view host = parsed.host.in(header);
  if (!is_authority(host) || !is_authority(target->authority)) {
    return {400, "the host is malformed"};
  }
  request_.host = target->authority.empty() ? host : target->authority;
  return {};
}

HttpFailure HttpParser::read_framing(const char* header) {
  const HttpHead::ParsedHead& parsed = head_.parsed();
  if (parsed.expects_other) return {417, "the only supported expectation is 100-continue"};
  framing_ = {};
  if (const HttpFailure failure = head_.read_lengths(header, framing_)) return failure;
  framing_.wants_continue = parsed.expects_continue && parsed.version == 11 && framing_.has_body();
  return {};
}

HttpParser::ParseResult HttpParser::begin_body(std::string_view input, std::size_t header) {
  const std::string_view rest = input.substr(header);
  const bool streamed = body_mode_ == BodyMode::streamed;
  if (!streamed && !framing_.chunked && rest.size() >= framing_.length) {
    request_.body = rest.substr(0, framing_.length);
    stage_ = ParseStage::complete;
    return {Status::complete, header + request_.body.size()};
  }
  // The caller will reuse its buffer for the body: copies the header, and makes the views point
  // there.
  kept_header_.assign(input.substr(0, header));
  (void)make_request(kept_header_.data());  // did not fail the first time
  if (streamed) {
    stage_ = ParseStage::complete;
    return {Status::complete, header};
  }
  stage_ = framing_.chunked ? ParseStage::chunks : ParseStage::body;
  // A client that has begun to send the body does not wait for 100 Continue.
  framing_.wants_continue = framing_.wants_continue && rest.empty();
  return {Status::head, header};
}

HttpParser::ParseResult HttpParser::collect_body(std::string_view input) {
  const std::size_t missing = static_cast<std::size_t>(framing_.length) - body_.size();
  const std::string_view fragment = input.substr(0, missing);
  body_.append(fragment);
  if (fragment.size() < missing) return {Status::need_more, fragment.size()};
  request_.body = body_;
  stage_ = ParseStage::complete;
  return {Status::complete, fragment.size()};
}

HttpParser::ParseResult HttpParser::collect_chunks(std::string_view input) {
  const ChunkDecoder::DecodeResult step = chunks_.decode(input, body_);
  switch (step.status) {
    case ChunkDecoder::Status::need_more:
      return {Status::need_more, step.consumed};
    case ChunkDecoder::Status::error:
      return fail(step.error_status, step.reason);
    case ChunkDecoder::Status::complete:
      break;
  }
  request_.body = body_;
  stage_ = ParseStage::complete;
  return {Status::complete, step.consumed};
}

}  // namespace weir::wire
