#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "wire/http1_response.h"
#include "wire/http1_target.h"

namespace weir::wire {
namespace {

using std::string_view_literals::operator""sv;
using Status = QueryValue::Status;

std::string written(HttpResponse response, HttpStart start = {}) {
  std::string out, first;
  start.status = response.status;
  append_start(first, start);
  response.start = first;
  append_response(out, response);
  return out;
}

TEST(HttpResponse, HasALengthAndABody) {
  EXPECT_EQ(written({.status = 429, .body = "{}", .fields = "Retry-After: 1\r\nA: b\r\n"},
                    {.content_type = "application/json"}),
            "HTTP/1.1 429 Too Many Requests\r\n"
            "Content-Type: application/json\r\n"
            "Content-Length: 2\r\n"
            "Retry-After: 1\r\n"
            "A: b\r\n"
            "\r\n"
            "{}");
}

TEST(HttpResponse, HasAConnectionFieldOnRequest) {
  EXPECT_EQ(written({.connection = HttpConnection::close}),
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(written({.connection = HttpConnection::keep_alive}),
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n");
}

TEST(HttpResponse, HasTheLengthButNoBodyForHead) {
  EXPECT_EQ(written({.body = "hello", .head = true}),
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
}

TEST(HttpResponse, HasNoLengthForNoContent) {
  EXPECT_EQ(written({.status = 204, .body = "x"}), "HTTP/1.1 204 No Content\r\n\r\n");
}

TEST(HttpResponse, HasADateOnRequest) {
  std::string date;
  append_http_date(date, Instant{std::chrono::seconds{784111777}});
  EXPECT_EQ(date, "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(written({}, {.date = date}),
            "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 0\r\n\r\n");
}

TEST(HttpResponse, HasAReasonPhraseForEveryStatus) {
  EXPECT_EQ(status_text(503), "Service Unavailable");
  EXPECT_EQ(status_text(499), "Client Error");
  EXPECT_EQ(status_text(599), "Server Error");
}

TEST(HttpTarget, DecodesAPath) {
  std::string buffer;
  EXPECT_EQ(decode_path("plain+text", buffer), "plain+text");
  EXPECT_EQ(decode_path("a%20b%2Fc%2f", buffer), "a b/c/");
  EXPECT_EQ(decode_path("%00%ff", buffer), "\0\xff"sv);
  for (const char* bad : {"%", "%4", "%4g", "%g4", "a%", "%%41", "%+1"}) {
    EXPECT_FALSE(decode_path(bad, buffer)) << bad;
  }
}

// Nothing is copied.
TEST(HttpTarget, ReturnsAPlainTextAsItIs) {
  std::string buffer = "before";
  const std::string_view text = "alice";
  EXPECT_EQ(decode_path(text, buffer)->data(), text.data());
  EXPECT_EQ(buffer, "before");
}

TEST(HttpTarget, FindsAValueOfAQuery) {
  std::string buffer;
  const auto value = [&](std::string_view query) { return query_value(query, "key", buffer); };
  EXPECT_EQ(value("policy=login&key=alice").value, "alice");
  EXPECT_EQ(value("key=a%26b+c%2B").value, "a&b c+");
  EXPECT_EQ(value("k%65y=alice").value, "alice");
  EXPECT_EQ(value("key=a=b").value, "a=b");
  EXPECT_EQ(value("&&key=a&").value, "a");
  EXPECT_EQ(value("key").status, Status::found);
  EXPECT_EQ(value("key=").status, Status::found);
  EXPECT_EQ(value("").status, Status::absent);
  EXPECT_EQ(value("keys=a&ke=b&Key=c&=d").status, Status::absent);
}

TEST(HttpTarget, RefusesAmbiguousAndMalformedQueries) {
  std::string buffer;
  const auto status = [&](std::string_view query) {
    return query_value(query, "key", buffer).status;
  };
  EXPECT_EQ(status("key=a&key=a"), Status::repeated);
  EXPECT_EQ(status("key=a&k%65y=a"), Status::repeated);
  EXPECT_EQ(status("key=%4"), Status::malformed);
  EXPECT_EQ(status("%zz=a&key=a"), Status::malformed);
  EXPECT_EQ(status("policy=%zz&key=a"), Status::found);
}

}  // namespace
}  // namespace weir::wire
