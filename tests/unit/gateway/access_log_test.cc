#include "gateway/access_log.h"

#include <gtest/gtest.h>

#include <chrono>

namespace weir::gateway {
namespace {

Logged request() {
  return {.time = Instant{std::chrono::seconds{1'767'225'600}},
          .client = "192.0.2.1",
          .method = "GET",
          .target = "/a?b=\"c\"",
          .status = 200,
          .received = 3,
          .sent = 5,
          .referer = "",
          .agent = "x\n\x01y\xff",
          .host = "a.example",
          .route = "shop",
          .ruling = "allowed",
          .server = "http://10.0.0.1:80",
          .id = "42",
          .took = std::chrono::milliseconds{12},
          .waited = std::chrono::milliseconds{2}};
}

TEST(AccessLog, IsALineThatReadersOfNginxsKnow) {
  EXPECT_EQ(
      access_line(false, request()),
      "192.0.2.1 - - [01/Jan/2026:00:00:00 +0000] \"GET /a?b=\\\"c\\\" HTTP/1.1\" 200 5 \"-\" "
      "\"x\\x0A\\x01y\xff\" host=\"a.example\" route=\"shop\" decision=\"allowed\" "
      "upstream=\"http://10.0.0.1:80\" id=\"42\" received=3 time=0.012000 wait=0.002000\n");
}

TEST(AccessLog, TellsWhatWasSpoken) {
  Logged logged = request();
  logged.version = 20;
  EXPECT_NE(access_line(false, logged).find(" HTTP/2.0\" 200 5 "), std::string::npos);
}

// Nobody ends a line or a text by what he sends, and every line is JSON, whatever bytes came.
TEST(AccessLog, OrAnObject) {
  EXPECT_EQ(access_line(true, request()),
            "{\"time\":\"2026-01-01T00:00:00Z\",\"client\":\"192.0.2.1\",\"method\":\"GET\","
            "\"target\":\"/a?b=\\\"c\\\"\",\"host\":\"a.example\",\"status\":200,\"received\":3,"
            "\"sent\":5,\"referer\":\"\",\"agent\":\"x\\u000a\\u0001y\\u00ff\",\"route\":\"shop\","
            "\"decision\":\"allowed\",\"upstream\":\"http://10.0.0.1:80\",\"id\":\"42\","
            "\"seconds\":0.012000,\"waited\":0.002000}\n");
}

}  // namespace
}  // namespace weir::gateway
