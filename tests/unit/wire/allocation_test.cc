// A connection that is in use allocates nothing.

#include <gtest/gtest.h>

#include <string>

#include "../allocations.h"
#include "wire/http1.h"
#include "wire/http1_response.h"
#include "wire/json.h"
#include "wire/json_write.h"
#include "wire/rate_fields.h"

namespace weir::wire {
namespace {

std::string take(std::string_view key) {
  const std::string body = R"({"policy":"login","key":")" + std::string(key) +
                           R"(","permits":1,"max_wait_ms":5,"receipt":true})";
  return "POST /v1/take HTTP/1.1\r\nHost: localhost:7380\r\nUser-Agent: test\r\n"
         "Content-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

// Parses and answers all requests in `input`; returns their number.
int serve(std::string_view input, HttpParser& parser, JsonReader& reader, std::string& body,
          std::string& out) {
  static const LegacyHeaders legacy;
  int served = 0;
  out.clear();
  while (!input.empty()) {
    const HttpParser::ParseResult step = parser.parse(input);
    input.remove_prefix(step.consumed);
    if (step.status == HttpParser::Status::head) continue;
    if (step.status != HttpParser::Status::complete) break;
    const ApiBody read = reader.read(parser.request().body, api::kTake);
    if (!read.error.empty() || read.items[0].request.policy != "login") break;
    body.clear();
    append_verdict(body, Verdict{}, {.receipt = read.items[0].request.key});
    append_start(out, {.status = 200, .content_type = kJson});
    append_response(out, {.status = 200, .body = body});
    append_rate_fields(out, HeaderStyle::both, {}, "a", Decision{}, legacy, Instant{});
    parser.next();
    ++served;
  }
  return served;
}

std::size_t allocations_of(const std::string& input, std::size_t cut) {
  HttpParser parser;
  JsonReader reader;
  std::string body, out;
  const auto round = [&] {
    const std::string_view text = input;
    return serve(text.substr(0, cut), parser, reader, body, out) +
           serve(text.substr(cut), parser, reader, body, out);
  };
  EXPECT_EQ(round(), 3);
  const std::size_t before = allocations();
  const int served = round();
  const std::size_t after = allocations();
  EXPECT_EQ(served, 3);
  return after - before;
}

TEST(WarmConnections, AllocateNothingForPipelinedTakes) {
  std::string input;
  for (const char* key : {"alice", "bob-with-a-name-that-fits-no-small-string", "carol\\u0000"}) {
    input += take(key);
  }
  EXPECT_EQ(allocations_of(input, input.size()), 0u);
}

// The body is buffered in memory that is reused.
TEST(WarmConnections, AllocateNothingForABodyInTwoReads) {
  const std::string first = take("alice-and-more-than-a-small-string-holds");
  EXPECT_EQ(allocations_of(first + first + first, first.size() - 5), 0u);
}

TEST(WarmConnections, AllocateNothingForAChunkedBody) {
  const std::string body = R"({"policy":"login","key":"alice-and-more-than-fits"})";
  const std::string request =
      "POST /v1/take HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
      std::string("10\r\n") + body.substr(0, 16) + "\r\n23\r\n" + body.substr(16) + "\r\n0\r\n\r\n";
  ASSERT_EQ(body.size() - 16, 0x23u);
  EXPECT_EQ(allocations_of(request + request + request, request.size()), 0u);
}

}  // namespace
}  // namespace weir::wire
