// Any bytes as input on a connection: the same requests and the same error for any segmentation,
// within the limits; another parser agrees about accepted requests.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "unit/wire/http_peer.h"
#include "unit/wire/http_transcript.h"
#include "wire/http1_target.h"

namespace {

using namespace weir::wire;

void require(bool holds) {
  if (!holds) std::abort();
}

// Small enough for the fuzzer to reach all of them.
constexpr HttpLimits kSmall{.target = 40, .header = 200, .body = 60, .fields = 4};

// The bytes themselves decide where they are cut, so that the same input is always cut in the same
// way.
std::size_t cut_of(std::string_view input) {
  std::size_t sum = input.size();
  for (const char c : input) sum = sum * 31 + static_cast<unsigned char>(c);
  return input.empty() ? 0 : sum % input.size();
}

void same_however_cut(std::string_view input, const HttpLimits& limits) {
  const std::string whole = transcript_at_once(input, limits);
  require(transcript_by_pieces(input, 1, limits) == whole);
  require(transcript_by_pieces(input, 1 + cut_of(input) % 17, limits) == whole);
  require(transcript_in_two(input, cut_of(input), limits) == whole);
}

void others_agree(std::string_view input) {
  HttpParser parser;
  for (;;) {
    std::size_t used = 0;
    HttpParser::ParseResult step;
    do {
      step = parser.parse(input.substr(used));
      used += step.consumed;
    } while (step.status == HttpParser::Status::head);
    if (step.status != HttpParser::Status::complete) return;
    require(HttpPeer::disagrees(input.substr(0, used), parser.request()).empty());
    parser.next();
    input.remove_prefix(used);
  }
}

void decode(std::string_view input) {
  std::string buffer;
  if (const auto path = decode_path(input, buffer)) require(path->size() <= input.size());
  if (const auto value = query_value(input, "key", buffer)) {
    require(value.value.size() <= input.size());
  }
  (void)split_target("GET", input);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  same_however_cut(input, {});
  same_however_cut(input, kSmall);
  others_agree(input);
  decode(input);
  return 0;
}
