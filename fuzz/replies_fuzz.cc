// Any bytes as answers of a server, RESP and HTTP: the same answers for any segmentation, no reads
// beyond the input, and never more than the limits.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "wire/http1_reply.h"
#include "wire/resp_reply.h"

namespace {

using namespace weir::wire;

void require(bool holds) {
  if (!holds) std::abort();
}

struct RespText {
  static constexpr std::size_t kMostBytes = RespReplyLimits::kBytes;
  using Parser = RespReplyParser;

  static std::string of(const Parser& parser) {
    const auto values = parser.values();
    require(!values.empty() && values.size() <= RespReplyLimits::kValues);
    std::string text;
    for (const RespValue& value : values) {
      text += std::to_string(static_cast<int>(value.kind)) + ' ' + std::to_string(value.number) +
              ' ' + std::string(value.text) + '\n';
    }
    return text;
  }
};

struct HttpText {
  static constexpr std::size_t kMostBytes =
      HttpReplyLimits::kHeadBytes + HttpReplyLimits::kBodyBytes;
  using Parser = HttpReplyParser;

  static std::string of(const Parser& parser) {
    require(parser.code() >= 0 && parser.code() <= 999);
    require(parser.body().size() <= HttpReplyLimits::kBodyBytes);
    return std::to_string(parser.code()) + (parser.closes() ? " closes " : " stays ") +
           std::string(parser.body()) + '\n';
  }
};

// Parses all answers as a connection does: bytes come in pieces, and consumed ones are dropped.
template <typename Text>
std::string transcript(std::string_view input, std::size_t piece) {
  typename Text::Parser parser;
  using Status = typename Text::Parser::Status;
  std::string seen;
  std::string unused;
  while (!input.empty()) {
    const std::size_t size = std::min(piece, input.size());
    unused.append(input.substr(0, size));
    input.remove_prefix(size);
    for (;;) {
      // Memory of exactly that size, so that a sanitizer sees reads beyond it.
      const std::vector<char> shown(unused.begin(), unused.end());
      const Status status = parser.parse({shown.data(), shown.size()});
      if (status == Status::need_more) break;
      if (status == Status::error) {
        require(!parser.error().empty());
        return seen + "broken";
      }
      require(parser.consumed() > 0 && parser.consumed() <= shown.size());
      require(parser.consumed() <= Text::kMostBytes);
      seen += Text::of(parser);
      unused.erase(0, parser.consumed());
    }
  }
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t piece = 1 + size % 7;
  require(transcript<RespText>(input, size) == transcript<RespText>(input, piece));
  require(transcript<HttpText>(input, size) == transcript<HttpText>(input, piece));
  return 0;
}
