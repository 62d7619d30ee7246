#include "server/http_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weir/quota.h"

namespace weir::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class HttpSessionTest : public testing::Test {
 protected:
  std::string say(std::string_view input) {
    std::string out;
    used = session.on_input(input, out);
    return out;
  }
  int status(std::string_view input) {
    const std::string answer = say(input);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 "));
    return std::stoi(answer.substr(9));
  }

  std::size_t used = 0;
  ManualClock clock;
  Engine engine{PolicySet{}.add("p", per_second(1000).burst(1000)), {.clock = &clock}};
  Policies policies{""};
  net::Loops loops{{.threads = 0}};
  Service service{.engine = engine, .policies = policies, .loops = loops, .access = {}};
  HttpSession session{service, {.address = "::1", .loopback = true}};
};

constexpr std::string_view kPing = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";

// In the line, the fields or the body: who began a request is told, and goes.
TEST_F(HttpSessionTest, TellsThoseWhoDoNotFinish) {
  const std::string_view requests[] = {
      "G", "GET / HTTP/1.1\r\nHost",
      "POST /v1/take HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{",
      "POST /v1/take HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{"};
  for (const std::string_view begun : requests) {
    HttpSession slow(service, {.address = "::1", .loopback = true});
    std::string out;
    slow.on_input(begun, out);
    EXPECT_EQ(out, "");
    EXPECT_TRUE(slow.in_message());
    slow.on_timeout(out);
    EXPECT_THAT(out, AllOf(StartsWith("HTTP/1.1 408 Request Timeout\r\n"),
                           HasSubstr("\r\nConnection: close\r\n"),
                           HasSubstr("the request was not finished in time")))
        << begun;
    EXPECT_TRUE(slow.ends());
  }
}

// Answers are sent before more is read: a client that does not take them cannot fill the memory.
TEST_F(HttpSessionTest, StopsWhenItHasSaidEnough) {
  std::string questions;
  for (int i = 0; i < 2000; ++i) questions += kPing;
  const std::string answers = say(questions);
  EXPECT_LT(used, questions.size());
  EXPECT_GE(answers.size(), net::Protocol::kEnough);
  EXPECT_LT(answers.size(), 2 * net::Protocol::kEnough);
}

TEST_F(HttpSessionTest, SaysNothingBehindAnError) {
  const std::string answers = say(std::string(kPing) + "nonsense\r\n" + std::string(kPing));
  EXPECT_THAT(answers, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answers, HasSubstr("HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_EQ(answers.find("HTTP/1.1 200 OK\r\n", 1), std::string::npos);
  EXPECT_TRUE(session.ends());
}

// Everybody is told that it was the last answer, and nobody's question is lost.
TEST_F(HttpSessionTest, EndsWhenTheProcessDoesAndAllIsAnswered) {
  constexpr std::string_view close = "\r\nConnection: close\r\n";
  session.on_shutdown();
  EXPECT_FALSE(session.ends());
  const std::string answers = say(std::string(kPing) + std::string(kPing));
  const std::size_t second = answers.find("HTTP/1.1 200 OK\r\n", 1);
  ASSERT_NE(second, std::string::npos);
  EXPECT_THAT(answers.substr(0, second), Not(HasSubstr(close)));
  EXPECT_THAT(answers.substr(second), HasSubstr(close));
  EXPECT_TRUE(session.ends());
}

TEST_F(HttpSessionTest, BoundsTheNameOfAPolicy) {
  const auto put = [](const std::string& name) {
    return "PUT /v1/policies/" + name +
           " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 15\r\n\r\nlimits: [ 1/s ]";
  };
  std::string escaped;
  for (int i = 0; i < 128; ++i) escaped += "%c3%a4";
  EXPECT_EQ(status(put("x")), 200);
  EXPECT_EQ(status(put(std::string(256, 'x'))), 200);
  EXPECT_EQ(status(put(escaped)), 200);
  EXPECT_EQ(status(put("")), 400);
  EXPECT_EQ(status(put(std::string(257, 'x'))), 400);
  EXPECT_EQ(status(put(escaped + "x")), 400);
  EXPECT_EQ(policies.names().size(), 3u);
}

// A key in a query is decoded first.
TEST_F(HttpSessionTest, BoundsAKeyInAQuery) {
  policies.use_file({{"p", {}}});
  const auto auth = [](const std::string& key) {
    return "GET /v1/auth?policy=p&key=" + key + " HTTP/1.1\r\nHost: a\r\n\r\n";
  };
  EXPECT_EQ(status(auth(std::string(4096, 'x'))), 200);
  EXPECT_EQ(status(auth(std::string(4095, 'x') + "%00")), 200);
  EXPECT_EQ(status(auth(std::string(4097, 'x'))), 400);
}

}  // namespace
}  // namespace weir::server
