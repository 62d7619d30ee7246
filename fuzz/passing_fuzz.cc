#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "wire/http1.h"
#include "wire/http1_answer.h"
#include "wire/http1_body.h"

// Messages that a gateway forwards. Their interpretation does not depend on the segmentation of the
// input, and the next parser interprets the forwarded bytes in the same way.

namespace {

using namespace weir::wire;

constexpr std::size_t kMost = 1 << 20;

void demand(bool holds) {
  if (!holds) std::abort();
}

struct Passed {
  bool failed = false;
  bool done = false;
  int status = 0;
  std::string data;
  std::string trailers;
  std::string rest;
  bool operator==(const Passed&) const = default;
};

void pass_body(const HttpFraming& framing, std::string_view input, std::size_t piece,
               Passed& passed) {
  HttpBody body;
  body.start(framing, kMost);
  std::string kept;
  std::string scratch;
  while (!body.is_done()) {
    const std::size_t more = std::min(piece, input.size());
    kept.append(input.substr(0, more));
    input.remove_prefix(more);
    const HttpBody::Fragment read = body.read(kept, scratch);
    if (read.error_status != 0) {
      passed.failed = true;
      return;
    }
    demand(read.consumed <= kept.size());
    passed.data.append(read.data);
    kept.erase(0, read.consumed);
    if (more == 0 && read.consumed == 0) break;
  }
  if (input.empty() && kept.empty()) body.end();
  passed.done = body.is_done();
  passed.trailers = body.trailers();
  passed.rest = passed.done ? kept + std::string(input) : "";
}

Passed pass_request(std::string_view input, std::size_t piece) {
  HttpParser parser({}, HttpParser::BodyMode::streamed);
  Passed passed;
  std::string kept;
  for (;;) {
    const std::size_t more = std::min(piece, input.size());
    kept.append(input.substr(0, more));
    input.remove_prefix(more);
    const auto step = parser.parse(kept);
    kept.erase(0, step.consumed);
    if (step.status == HttpParser::Status::error) {
      passed.failed = true;
      passed.status = step.error_status;
      return passed;
    }
    if (step.status == HttpParser::Status::complete) break;
    if (more == 0) return passed;
  }
  kept.append(input);
  pass_body(parser.framing(), kept, piece, passed);
  return passed;
}

Passed pass_answer(std::string_view input, std::size_t piece, bool to_head) {
  HttpAnswerParser parser({});
  Passed passed;
  std::string kept;
  for (;;) {
    const std::size_t more = std::min(piece, input.size());
    kept.append(input.substr(0, more));
    input.remove_prefix(more);
    const auto step = parser.parse(kept, to_head);
    if (step.status == HttpAnswerParser::Status::error) {
      passed.failed = true;
      return passed;
    }
    if (step.status == HttpAnswerParser::Status::complete) {
      kept.erase(0, step.consumed);
      break;
    }
    if (more == 0) return passed;
  }
  passed.status = parser.status();
  kept.append(input);
  pass_body(parser.framing(), kept, piece, passed);
  return passed;
}

// As a gateway writes it for the next parser.
void check_chunks(const Passed& passed) {
  std::string out;
  append_chunk(out, passed.data);
  append_last_chunk(out, passed.trailers);
  Passed again;
  pass_body({.chunked = true}, out, out.size(), again);
  demand(!again.failed && again.done && again.data == passed.data && again.rest.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t piece = 1 + bytes[0] % 64;
  const bool to_head = bytes[1] & 1;
  const std::string_view input(reinterpret_cast<const char*>(bytes) + 2, size - 2);
  for (const auto& [whole, cut] :
       {std::pair{pass_request(input, kMost), pass_request(input, piece)},
        std::pair{pass_answer(input, kMost, to_head), pass_answer(input, piece, to_head)}}) {
    // (Of an invalid body, more or less may have been forwarded before.)
    demand(whole.failed == cut.failed && whole.status == cut.status);
    if (whole.failed) continue;
    demand(whole == cut);
    if (whole.done) check_chunks(whole);
  }
  return 0;
}
