#include "wire/http1_reply.h"

#include <gtest/gtest.h>

#include <string>

#include "wire/http1_response.h"

namespace weir::wire {
namespace {

using Status = HttpReplyParser::Status;

TEST(HttpReplyParser, ReadsAResponseHoweverItIsCut) {
  const std::string bytes =
      "HTTP/1.1 429 Too Many Requests\r\nDate: now\r\nContent-length:  5 \r\n\r\nabcde";
  HttpReplyParser parser;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(parser.parse(bytes.substr(0, size)), Status::need_more) << size;
  }
  const std::string more = bytes + "HTTP/1.1 200 OK\r\n";
  EXPECT_EQ(parser.parse(more), Status::reply);
  EXPECT_EQ(parser.consumed(), bytes.size());
  EXPECT_EQ(parser.code(), 429);
  EXPECT_EQ(parser.body(), "abcde");
  EXPECT_FALSE(parser.closes());
}

TEST(HttpReplyParser, ReadsWhatTheWriterWrites) {
  std::string start;
  append_start(start, {.status = 503, .content_type = "text/plain", .date = {}});
  std::string bytes;
  append_response(bytes, {.status = 503,
                          .start = start,
                          .body = "later",
                          .fields = "Retry-After: 1\r\n",
                          .connection = HttpConnection::close});
  HttpReplyParser parser;
  ASSERT_EQ(parser.parse(bytes), Status::reply) << bytes;
  EXPECT_EQ(parser.code(), 503);
  EXPECT_EQ(parser.body(), "later");
  EXPECT_TRUE(parser.closes());
}

TEST(HttpReplyParser, ReportsWhetherTheConnectionCloses) {
  const auto closes = [](const std::string& version, const std::string& field) {
    HttpReplyParser parser;
    const std::string bytes = version + " 200 OK\r\nContent-Length: 0\r\n" + field + "\r\n";
    EXPECT_EQ(parser.parse(bytes), Status::reply) << bytes;
    return parser.closes();
  };
  EXPECT_FALSE(closes("HTTP/1.1", ""));
  EXPECT_TRUE(closes("HTTP/1.1", "connection: Close\r\n"));
  EXPECT_TRUE(closes("HTTP/1.0", ""));
  EXPECT_FALSE(closes("HTTP/1.0", "Connection: keep-alive\r\n"));
}

TEST(HttpReplyParser, NeedsNoLengthForNoContent) {
  HttpReplyParser parser;
  EXPECT_EQ(parser.parse("HTTP/1.1 204 No Content\r\n\r\n"), Status::reply);
  EXPECT_EQ(parser.body(), "");
}

TEST(HttpReplyParser, RefusesMalformedResponses) {
  HttpReplyParser parser;
  for (const char* bytes :
       {"+OK\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 20\r\n\r\n", "HTTP/1.1 2000\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}) {
    EXPECT_EQ(parser.parse(bytes), Status::error) << bytes;
    EXPECT_FALSE(parser.error().empty());
  }
}

TEST(HttpReplyParser, RefusesAHeadWithoutEnd) {
  HttpReplyParser parser;
  const std::string head = "HTTP/1.1 200 OK\r\nX: ";
  EXPECT_EQ(parser.parse(head + std::string(1000, 'x')), Status::need_more);
  EXPECT_EQ(parser.parse(head + std::string(HttpReplyLimits::kHeadBytes, 'x')), Status::error);
}

}  // namespace
}  // namespace weir::wire
