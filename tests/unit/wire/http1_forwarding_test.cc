#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <tuple>

#include "wire/http1.h"
#include "wire/http1_answer.h"
#include "wire/http1_body.h"

// Messages that a proxy forwards while they arrive: heads of responses, and bodies.

namespace weir::wire {
namespace {

using Status = HttpAnswerParser::Status;

HttpAnswerParser::ParseResult parse(HttpAnswerParser& parser, std::string_view text,
                                    bool to_head = false) {
  return parser.parse(text, to_head);
}

TEST(StreamedHttpRequests, AreCompleteWithTheirHead) {
  HttpParser parser({}, HttpParser::BodyMode::streamed);
  const std::string_view input = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
  const auto step = parser.parse(input);
  EXPECT_EQ(step.status, HttpParser::Status::complete);
  EXPECT_EQ(input.substr(step.consumed), "hello");
  EXPECT_EQ(parser.framing().length, 5u);
  EXPECT_EQ(parser.request().path, "/a");
  EXPECT_EQ(parser.upgrade(), "");
}

TEST(StreamedHttpRequests, ReportTheProtocolOfAnUpgrade) {
  HttpParser parser({}, HttpParser::BodyMode::streamed);
  parser.parse("GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: a, Upgrade\r\n\r\n");
  EXPECT_EQ(parser.upgrade(), "websocket");
  parser.next();
  parser.parse("GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n");
  EXPECT_EQ(parser.upgrade(), "");
}

TEST(HttpResponseHeads, AreDelimitedAsTheirHeadSays) {
  HttpAnswerParser parser({});
  ASSERT_EQ(parse(parser, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n").status, Status::complete);
  EXPECT_EQ(
      std::tuple(parser.status(), parser.reason(), parser.framing().length, parser.keep_alive()),
      std::tuple(200, "OK", 7u, true));
  parser.next();
  ASSERT_EQ(parse(parser, "HTTP/1.1 200\r\nTransfer-Encoding: Chunked\r\n\r\n").status,
            Status::complete);
  EXPECT_TRUE(parser.framing().chunked);
  parser.next();
  ASSERT_EQ(parse(parser, "HTTP/1.0 200 OK\r\n\r\n").status, Status::complete);
  EXPECT_TRUE(parser.framing().until_end);
  EXPECT_FALSE(parser.keep_alive());
}

TEST(HttpResponseHeads, HaveNoBodyForStatusesWithoutContent) {
  for (const char* line :
       {"HTTP/1.1 204 No Content", "HTTP/1.1 304 Not Modified", "HTTP/1.1 103 Early Hints"}) {
    HttpAnswerParser parser({});
    ASSERT_EQ(parse(parser, std::string(line) + "\r\nContent-Length: 7\r\n\r\n").status,
              Status::complete);
    EXPECT_FALSE(parser.framing().has_body()) << line;
    EXPECT_TRUE(parser.declares_length());
    EXPECT_EQ(parser.length_text(), "7");
  }
  HttpAnswerParser parser({});
  parse(parser, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", true);
  EXPECT_FALSE(parser.framing().has_body());
}

TEST(HttpResponseHeads, AreRefusedIfAmbiguousOrMalformed) {
  for (const char* text : {
           "SSH-2.0\r\n\r\n",
           "HTTP/2 200 OK\r\n\r\n",
           "HTTP/1.1 99 X\r\n\r\n",
           "HTTP/1.1 2000 X\r\n\r\n",
           "HTTP/1.1 600 X\r\n\r\n",
           "HTTP/1.1 200 OK\nA: b\n\n",
           "HTTP/1.1 200 O\rK\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
           "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
           "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\n",
       }) {
    HttpAnswerParser parser({});
    EXPECT_EQ(parse(parser, text).status, Status::error) << text;
  }
}

// Reads a body in pieces of the given size; returns its data.
std::string passed(HttpBody& body, std::string_view input, std::size_t piece, int& error) {
  std::string data;
  std::string kept;
  std::string scratch;
  while (!input.empty() && !body.is_done()) {
    kept.append(input.substr(0, piece));
    input.remove_prefix(std::min(piece, input.size()));
    const HttpBody::Fragment read = body.read(kept, scratch);
    error = read.error_status;
    if (error != 0) break;
    data.append(read.data);
    kept.erase(0, read.consumed);
  }
  return data;
}

TEST(HttpBodies, AreTheSameHoweverTheInputIsCut) {
  const std::string_view chunks = "5;a=b\r\nhello\r\n7\r\n, world\r\n0\r\nX-A: 1\r\nTE: x\r\n\r\n";
  for (std::size_t piece = 1; piece < chunks.size() + 1; ++piece) {
    HttpBody body;
    body.start({.chunked = true});
    int error = 0;
    EXPECT_EQ(passed(body, chunks, piece, error), "hello, world");
    EXPECT_EQ(error, 0);
    EXPECT_TRUE(body.is_done());
    EXPECT_EQ(body.size(), 12u);
    EXPECT_EQ(body.trailers(), "X-A: 1\r\nTE: x\r\n");
    std::string out;
    append_chunk(out, "hello, world");
    append_chunk(out, "");
    append_last_chunk(out, body.trailers());
    EXPECT_EQ(out, "c\r\nhello, world\r\n0\r\nX-A: 1\r\n\r\n");
  }
}

// Also not with underscores, which CGI programs take for the same names.
TEST(HttpBodies, DropHopByHopAndFramingTrailers) {
  EXPECT_EQ(forwardable_trailers("X-A: 1\r\nProxy-Authorization: a\r\nPROXY_AUTHENTICATE: a\r\n"
                                 "Content_Length: 3\r\nTransfer_encoding: chunked\r\n"
                                 "HTTP2-Settings: a\r\nX_B: 2\r\n"),
            "X-A: 1\r\nX_B: 2\r\n");
}

TEST(HttpBodies, EndWithTheirLengthOrTheirConnection) {
  HttpBody body;
  int error = 0;
  body.start({.length = 3});
  EXPECT_EQ(passed(body, "abcdef", 2, error), "abc");
  EXPECT_TRUE(body.is_done());
  body.start({.length = 3});
  EXPECT_EQ(passed(body, "ab", 1, error), "ab");
  EXPECT_FALSE(body.end());
  body.start({.until_end = true});
  EXPECT_EQ(passed(body, "abc", 1, error), "abc");
  EXPECT_FALSE(body.is_done());
  EXPECT_TRUE(body.end());
  body.start({});
  EXPECT_TRUE(body.is_done());
}

TEST(HttpBodies, AreLimitedInSize) {
  HttpBody body;
  int error = 0;
  body.start({.chunked = true}, 4);
  passed(body, "4\r\nabcd\r\n0\r\n\r\n", 3, error);
  EXPECT_EQ(error, 0);
  body.start({.chunked = true}, 4);
  passed(body, "5\r\nabcde\r\n0\r\n\r\n", 3, error);
  EXPECT_EQ(error, 413);
}

}  // namespace
}  // namespace weir::wire
