#include "wire/http1_answer.h"

namespace weir::wire {

namespace {

bool never_has_body(int status) { return status < 200 || status == 204 || status == 304; }

}  // namespace

void HttpAnswerParser::next() {
  head_.reset();
  framing_ = {};
}

HttpAnswerParser::ParseResult HttpAnswerParser::parse(std::string_view input, bool to_head) {
  std::size_t length = 0;
  if (const HttpFailure failure = head_.scan(input, length)) {
    return {Status::error, 0, failure.reason};
  }
  if (length == 0) return {Status::need_more, 0};
  kept_.assign(input.substr(0, length));
  if (const HttpFailure failure = head_.read_lengths(kept_.data(), framing_)) {
    return {Status::error, 0, failure.reason};
  }
  if (to_head || never_has_body(status())) {
    framing_ = {};
  } else if (head_.parsed().length_count == 0 && !framing_.chunked) {
    framing_.until_end = true;
  }
  return {Status::complete, length};
}

}  // namespace weir::wire
