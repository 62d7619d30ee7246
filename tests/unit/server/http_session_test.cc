#include "server/http_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "../allocations.h"
#include "feed.h"
#include "test_server.h"
#include "weir/quota.h"

namespace weir::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string request(std::string_view method, std::string_view path, std::string_view body = {}) {
  std::string text = std::string(method) + " " + std::string(path) + " HTTP/1.1\r\nHost: [::1]\r\n";
  if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return text + "\r\n" + std::string(body);
}

std::string take(std::string_view key, std::string_view more = {}) {
  return request("POST", "/v1/take",
                 R"({"policy":"p","key":")" + std::string(key) + "\"" + std::string(more) + "}");
}

class HttpSessionTest : public testing::Test {
 protected:
  static PolicySet some_policies() {
    PolicySet set;
    set.add("p", Limit::window(10, std::chrono::hours{1}));
    set.add("roomy", per_second(1000).burst(1'000'000));
    return set;
  }

  std::string say(std::string_view input) {
    std::string out;
    used = feed(session, input, out);
    return out;
  }

  int status(std::string_view input) {
    const std::string answer = say(input);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 "));
    return std::stoi(answer.substr(9));
  }

  // The statuses of the responses in `out`, each with the remaining permits if the body has them.
  static std::vector<std::string> statuses(std::string_view out) {
    std::vector<std::string> all;
    constexpr std::string_view start = "HTTP/1.1 ";
    constexpr std::string_view remaining = "\"remaining\":";
    for (std::size_t at = out.find(start); at != std::string_view::npos;) {
      const std::size_t next = out.find(start, at + 1);
      const std::string_view answer =
          out.substr(at, next == std::string_view::npos ? next : next - at);
      std::string line(answer.substr(start.size(), 3));
      if (const auto found = answer.find(remaining); found != std::string_view::npos) {
        const std::string_view rest = answer.substr(found + remaining.size());
        line += " " + std::string(rest.substr(0, rest.find(',')));
      }
      all.push_back(line);
      at = next;
    }
    return all;
  }

  std::size_t used = 0;
  TestServer server{some_policies()};
  ServerContext& context = server.context;
  HttpSession session{context, {.address = "::1", .loopback = true}};
};

using Statuses = std::vector<std::string>;

// Takes are decided together, but before any other request behind them.
TEST_F(HttpSessionTest, AnswersInTheOrderOfTheRequests) {
  const std::string reset = request("POST", "/v1/reset", R"({"policy":"p","key":"a"})");
  const std::string peek = request("POST", "/v1/peek", R"({"policy":"p","key":"a"})");
  const std::string input = take("a") + take("a") + peek + take("a") + reset + take("a") +
                            request("GET", "/healthz") + take("a") + request("GET", "/nothing") +
                            take("a", R"(,"receipt":true)") + take("a");
  EXPECT_EQ(statuses(say(input)), (Statuses{"200 9", "200 8", "200 8", "200 7", "200", "200 9",
                                            "200", "200 8", "404", "200 7", "200 6"}));
  EXPECT_EQ(used, input.size());
}

TEST_F(HttpSessionTest, AnswersTakesBeforeAnError) {
  EXPECT_EQ(statuses(say(take("a") + take("a") + "nonsense\r\n")),
            (Statuses{"200 9", "200 8", "400"}));
  EXPECT_TRUE(session.ends());
}

TEST_F(HttpSessionTest, AnswersTakesBeforeA100Continue) {
  const std::string out = say(take("a") +
                              "POST /v1/take HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n"
                              "Expect: 100-continue\r\n\r\n");
  EXPECT_EQ(statuses(out), (Statuses{"200 9", "100"}));
}

TEST_F(HttpSessionTest, AnswersEachPipelinedTakeByItself) {
  const std::string unknown = request("POST", "/v1/take", R"({"policy":"q","key":"a"})");
  EXPECT_EQ(statuses(say(take("a") + unknown + take("b") + take("a", R"(,"permits":9)") +
                         take("a", R"(,"permits":11)") + take("a"))),
            (Statuses{"200 9", "404", "200 9", "200 0", "429 0", "429 0"}));
}

TEST_F(HttpSessionTest, DecidesPipelinedTakesByParts) {
  const auto by = [](std::string_view user) {
    return request("POST", "/v1/take",
                   R"({"policy":"p","parts":{"user":")" + std::string(user) + R"("}})");
  };
  EXPECT_EQ(statuses(say(by("a") + by("b") + by("a"))), (Statuses{"200 9", "200 9", "200 8"}));
}

// More takes than a batch holds, with keys that exceed its memory.
TEST_F(HttpSessionTest, CountsEveryTakeOfALongPipeline) {
  std::string input;
  for (int i = 0; i < 100; ++i) input += take(std::string(i % 2 == 0 ? 1 : 4000, 'k'));
  std::string out;
  for (std::size_t at = 0; at < input.size(); at += session.on_input(input.substr(at), out)) {
  }
  Statuses expected;
  for (int i = 0; i < 50; ++i) {
    const std::string each = i < 10 ? "200 " + std::to_string(9 - i) : "429 0";
    expected.insert(expected.end(), 2, each);
  }
  EXPECT_EQ(statuses(out), expected);
}

// Short responses may take long to make.
TEST_F(HttpSessionTest, YieldsAfterItsTurn) {
  std::string input;
  for (int i = 0; i < 2'000; ++i) input += request("HEAD", "/metrics");
  std::string out;
  used = session.on_input(input, out);
  EXPECT_GT(used, 0u);
  EXPECT_LT(used, input.size());
  EXPECT_LT(out.size(), net::Protocol::kOutputHighWater);
  EXPECT_EQ(statuses(out).size(), used * 2'000 / input.size());
}

TEST_F(HttpSessionTest, EndsAfterATakeWithConnectionClose) {
  std::string last = take("a");
  last.insert(last.find("\r\n") + 2, "Connection: close\r\n");
  const std::string out = say(take("a") + last + take("a"));
  EXPECT_EQ(statuses(out), (Statuses{"200 9", "200 8"}));
  EXPECT_NE(out.find("Connection: close"), std::string::npos);
  EXPECT_TRUE(session.ends());
}

constexpr std::string_view kPing = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";

// Whether the request stops in its first line, its fields or its body.
TEST_F(HttpSessionTest, Answers408ToAnUnfinishedRequest) {
  const std::string_view requests[] = {
      "G", "GET / HTTP/1.1\r\nHost",
      "POST /v1/take HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{",
      "POST /v1/take HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{"};
  for (const std::string_view begun : requests) {
    HttpSession slow(context, {.address = "::1", .loopback = true});
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

// Backpressure: a client that does not read its responses cannot fill the memory.
TEST_F(HttpSessionTest, StopsReadingWhenTheOutputIsFull) {
  std::string questions;
  for (int i = 0; i < 2000; ++i) questions += kPing;
  const std::string answers = say(questions);
  EXPECT_LT(used, questions.size());
  EXPECT_GE(answers.size(), net::Protocol::kOutputHighWater);
  EXPECT_LT(answers.size(), 2 * net::Protocol::kOutputHighWater);
}

TEST_F(HttpSessionTest, SendsNothingAfterAnError) {
  const std::string answers = say(std::string(kPing) + "nonsense\r\n" + std::string(kPing));
  EXPECT_THAT(answers, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answers, HasSubstr("HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_EQ(answers.find("HTTP/1.1 200 OK\r\n", 1), std::string::npos);
  EXPECT_TRUE(session.ends());
}

// The last response says Connection: close, and no request that has arrived is lost.
TEST_F(HttpSessionTest, AnswersAllArrivedRequestsAtShutdown) {
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
  EXPECT_EQ(server.policies.names().size(), 3u);
}

// The bound is that of the decoded key.
TEST_F(HttpSessionTest, BoundsAKeyInAQuery) {
  server.policies.use_file({{"p", {}}});
  const auto auth = [](const std::string& key) {
    return "GET /v1/auth?policy=p&key=" + key + " HTTP/1.1\r\nHost: a\r\n\r\n";
  };
  EXPECT_EQ(status(auth(std::string(4096, 'x'))), 200);
  EXPECT_EQ(status(auth(std::string(4095, 'x') + "%00")), 200);
  EXPECT_EQ(status(auth(std::string(4097, 'x'))), 400);
}

TEST_F(HttpSessionTest, DecidesTakesWithoutAllocating) {
  std::string takes;
  for (int i = 0; i < 20; ++i) {
    takes += request("POST", "/v1/take",
                     R"({"policy":"roomy","key":"somebody with a name )" + std::to_string(i) +
                         R"(","permits":2})");
  }
  std::string out;
  session.on_input(takes, out);
  out.reserve(2 * out.size());
  for (int i = 0; i < 10; ++i) {
    out.clear();
    const std::size_t before = allocations();
    EXPECT_EQ(session.on_input(takes, out), takes.size());
    EXPECT_EQ(allocations() - before, 0u);
  }
}

}  // namespace
}  // namespace weir::server
