#include "wire/http1.h"

#include <algorithm>

#include "base/reuse.h"
#include "wire/http1_target.h"
#include "wire/http1_text.h"

namespace weir::wire {

namespace {

bool is_authority(std::string_view text) { return std::ranges::all_of(text, is_authority_char); }

}  // namespace

HttpParser::HttpParser(HttpLimits limits, Bodies bodies)
    : limits_(limits),
      bodies_(bodies),
      head_(HttpHead::Kind::request, limits),
      chunks_(ChunkDecoder::Limits{limits.body, limits.header, limits.fields}) {}

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
  head_.reset();
  skipped_line_ = false;
  clear_for_reuse(kept_header_);
  clear_for_reuse(body_);
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
  if (const HttpFailure failure = head_.scan(input, length))
    return fail(failure.status, failure.reason);
  if (length == 0) return {Status::need_more, skipped};
  if (const HttpFailure failure = make_request(input.data()))
    return fail(failure.status, failure.reason);
  if (const HttpFailure failure = read_framing(input.data()))
    return fail(failure.status, failure.reason);
  Step step = begin_body(input, length);
  step.consumed += skipped;
  return step;
}

// What the request borrows lies in `header`.
HttpFailure HttpParser::make_request(const char* header) {
  const HttpHead::Said& said = head_.said();
  request_.method = said.method.in(header);
  request_.head = request_.method == "HEAD";
  request_.target = said.target.in(header);
  request_.content_type = said.content_type.in(header);
  request_.authorization = said.authorization.in(header);
  request_.version = said.version;
  request_.keep_alive = head_.keep_alive();
  request_.says_length = said.lengths > 0 || said.codings > 0;
  request_.fields = {head_.places(), header};
  request_.body = {};
  upgrade_ = said.says_upgrade && said.upgrades == 1 ? said.upgrade.in(header) : std::string_view{};
  const auto target = split_target(request_.method, request_.target);
  if (!target) return {400, "the target is malformed"};
  request_.path = target->path;
  request_.query = target->query;
  if (said.hosts > 1) return {400, "there are two Host fields"};
  if (said.hosts == 0 && said.version == 11) return {400, "there is no Host field"};
  const std::string_view host = said.host.in(header);
  if (!is_authority(host) || !is_authority(target->authority)) {
    return {400, "the host is malformed"};
  }
  request_.host = target->authority.empty() ? host : target->authority;
  return {};
}

HttpFailure HttpParser::read_framing(const char* header) {
  const HttpHead::Said& said = head_.said();
  if (said.expects_other) return {417, "only 100-continue can be expected"};
  framing_ = {};
  if (const HttpFailure failure = head_.read_lengths(header, framing_)) return failure;
  framing_.wants_continue = said.expects_continue && said.version == 11 && framing_.has_body();
  return {};
}

HttpParser::Step HttpParser::begin_body(std::string_view input, std::size_t header) {
  const std::string_view rest = input.substr(header);
  const bool left = bodies_ == Bodies::left;
  if (!left && !framing_.chunked && rest.size() >= framing_.length) {
    request_.body = rest.substr(0, framing_.length);
    stage_ = Stage::complete;
    return {Status::complete, header + request_.body.size()};
  }
  // The caller's buffer will be used for the body: what points into it has to point elsewhere.
  kept_header_.assign(input.substr(0, header));
  (void)make_request(kept_header_.data());  // as it was made before, without a failure
  if (left) {
    stage_ = Stage::complete;
    return {Status::complete, header};
  }
  stage_ = framing_.chunked ? Stage::chunks : Stage::body;
  // Who has sent some of the body does not wait for permission.
  framing_.wants_continue = framing_.wants_continue && rest.empty();
  return {Status::head, header};
}

HttpParser::Step HttpParser::collect_body(std::string_view input) {
  const std::size_t missing = static_cast<std::size_t>(framing_.length) - body_.size();
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
