#include "gateway/request_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "fields.h"
#include "gateway/local_reply.h"

namespace weir::gateway {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

const IpAddress kStranger = address("192.0.2.1");

wire::HttpRequest request(std::string_view method, std::string_view target,
                          bool declares_length = false) {
  wire::HttpRequest made;
  made.method = method;
  made.target = target;
  made.query = target.substr(std::min(target.find('?') + 1, target.size()));
  if (target.find('?') == std::string_view::npos) made.query = {};
  made.declares_length = declares_length;
  return made;
}

std::string passed(const wire::HttpRequest& request, const wire::HttpFraming& framing,
                   std::string_view upgrade = {}, const FieldList& fields = {}) {
  std::string out;
  const Hop hop{.peer = kStranger, .host = "a", .style = ForwardedStyle::off};
  append_request_head(out, {.request = request,
                            .framing = framing,
                            .path = "/x",
                            .host = "a",
                            .id = "42",
                            .upgrade = upgrade,
                            .hop = hop,
                            .fields = fields});
  return out;
}

TEST(RequestHead, HasContentLengthIfTheLengthIsKnown) {
  EXPECT_EQ(passed(request("POST", "/x", true), {.length = 7}),
            "POST /x HTTP/1.1\r\nHost: a\r\nX-Request-Id: 42\r\nContent-Length: 7\r\n\r\n");
  EXPECT_EQ(passed(request("GET", "/x"), {}),
            "GET /x HTTP/1.1\r\nHost: a\r\nX-Request-Id: 42\r\n\r\n");
}

// An id that is too long is replaced, for the service and the log alike.
TEST(RequestHead, HasOneRequestId) {
  EXPECT_EQ(passed(request("GET", "/x"), {}, {}, {{"X-Request-Id", std::string(200, 'a')}}),
            "GET /x HTTP/1.1\r\nHost: a\r\nX-Request-Id: 42\r\n\r\n");
}

// An HTTP/1 body in chunks, and an HTTP/2 body without a length.
TEST(RequestHead, HasChunkedEncodingIfTheLengthIsUnknown) {
  for (const wire::HttpFraming& framing :
       {wire::HttpFraming{.chunked = true}, wire::HttpFraming{.until_end = true}}) {
    const std::string head = passed(request("POST", "/x", true), framing);
    EXPECT_THAT(head, HasSubstr("Transfer-Encoding: chunked\r\n"));
    EXPECT_THAT(head, Not(HasSubstr("Content-Length")));
    EXPECT_FALSE(has_known_length(request("POST", "/x", true), framing));
  }
}

// "/x?" is a different target from "/x".
TEST(RequestHead, KeepsAnEmptyQuery) {
  EXPECT_THAT(passed(request("GET", "/x?"), {}), testing::StartsWith("GET /x? HTTP"));
  EXPECT_THAT(passed(request("GET", "/x?a=1"), {}), testing::StartsWith("GET /x?a=1 HTTP"));
}

TEST(RequestHead, HasTheUpgradeOfTheClient) {
  EXPECT_THAT(passed(request("GET", "/x"), {}, "websocket"),
              EndsWith("Connection: upgrade\r\nUpgrade: websocket\r\n\r\n"));
}

std::string answered(const ResponseHead& head, int version = 11, bool chunked = false) {
  std::string out;
  append_http1_head(out, head, version, chunked);
  return out;
}

TEST(ResponseHead, IsFormattedAsHttp1) {
  EXPECT_EQ(answered({.status = 200, .fields = "A: b\r\n", .length = "3", .has_body = true}),
            "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(
      answered({.status = 200, .reason = "Fine", .has_body = true, .keep_alive = false}, 11, true),
      "HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(answered({.status = 204}, 10),
            "HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(answered({.status = 103, .reason = "Early Hints", .fields = "Link: x\r\n"}),
            "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n");
  EXPECT_EQ(
      answered({.status = 101, .reason = "Switching Protocols", .upgrade = "websocket"}),
      "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
}

}  // namespace
}  // namespace weir::gateway
