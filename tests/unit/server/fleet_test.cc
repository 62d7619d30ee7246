#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../support/fake_fleet.h"
#include "feed.h"
#include "server/http_session.h"
#include "server/resp_session.h"
#include "server/thread_link.h"
#include "test_server.h"
#include "weir/quota.h"

namespace weir::server {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Mode = FakeFleet::Mode;

// A connection as its protocol sees it, without a socket.
struct FakeConnection final : net::Waker {
  explicit FakeConnection(net::Protocol& the_protocol) : protocol(the_protocol) {
    protocol.use_waker(*this);
  }
  void wake() override { ++woken; }

  // Feeds it input, behind the input that it has left.
  std::string say(std::string_view more) {
    input += more;
    std::string out;
    input.erase(0, feed(protocol, input, out));
    return out;
  }

  net::Protocol& protocol;
  std::string input{};
  int woken = 0;
};

PolicySet some_policies() {
  return *PolicySet::parse(R"(policies:
  shared: { limits: [ 3/min ], on_store_failure: closed }
  here: { limits: [ { limit: 9/min, scope: node } ] }
  lent: { limits: [ { limit: 3/min, scope: leased } ] }
  rooms: { limits: [ 2 concurrent ] }
)");
}

class FleetSessionTest : public testing::Test {
 protected:
  FakeFleet fleet;
  TestServer server{some_policies(), &fleet};
  ThreadLink link{fleet, server.engine};
  const net::Peer peer{.address = "127.0.0.1", .loopback = true};
};

class FleetRespTest : public FleetSessionTest {
 protected:
  RespSession session{server.context, peer};
  FakeConnection connection{session};
};

constexpr std::string_view kThree =
    "*8\r\n:1\r\n:3\r\n:2\r\n:0\r\n:20000\r\n:0\r\n$1\r\n0\r\n:0\r\n";

TEST_F(FleetRespTest, AnswersAtOnceIfTheFleetDoes) {
  EXPECT_EQ(connection.say("WEIR.TAKE shared k\r\n"), kThree);
  EXPECT_FALSE(session.waits());
}

TEST_F(FleetRespTest, AnswersWhenTheFleetHasAnswered) {
  fleet.mode = Mode::waits;
  EXPECT_EQ(connection.say("WEIR.TAKE shared k\r\n"), "");
  EXPECT_TRUE(session.waits());
  EXPECT_EQ(connection.woken, 0);
  fleet.mode = Mode::answers;
  fleet.deliver();
  EXPECT_EQ(connection.woken, 1);
  EXPECT_EQ(connection.say(""), kThree);
  EXPECT_FALSE(session.waits());
}

// Takes go to the fleet together; a response that is ready early waits for those before it.
TEST_F(FleetRespTest, AnswersInTheOrderOfTheCommands) {
  fleet.mode = Mode::waits;
  const std::string questions =
      "WEIR.TAKE shared k\r\nWEIR.TAKE here k\r\nWEIR.TAKE shared k\r\nWEIR.TAKE nobody k\r\n"
      "PING\r\nWEIR.TAKE shared k\r\n";
  EXPECT_EQ(connection.say(questions), "");
  EXPECT_EQ(fleet.waiting(), 2u);
  EXPECT_THAT(connection.input, StartsWith("PING\r\n"));  // not before the others are done
  fleet.mode = Mode::answers;
  fleet.deliver();
  const std::string answers = connection.say("");
  std::vector<std::string> firsts;
  for (std::size_t at = 0; (at = answers.find_first_of("*-+", at)) != std::string::npos; ++at) {
    firsts.push_back(answers.substr(at, answers[at] == '*' ? 16 : 5));
  }
  EXPECT_THAT(firsts, testing::ElementsAre("*8\r\n:1\r\n:3\r\n:2\r\n", "*8\r\n:1\r\n:9\r\n:8\r\n",
                                           "*8\r\n:1\r\n:3\r\n:1\r\n", "-ERR ", "+PONG",
                                           "*8\r\n:1\r\n:3\r\n:0\r\n"));
}

TEST_F(FleetRespTest, AnswersInOrderIfALimitIsLeased) {
  EXPECT_EQ(connection.say("WEIR.TAKE lent k\r\n"), kThree);
  fleet.mode = Mode::waits;
  EXPECT_EQ(connection.say("WEIR.TAKE lent other\r\nWEIR.TAKE here k\r\n"), "");
  fleet.deliver();
  const std::string both = connection.say("");
  EXPECT_THAT(both, testing::StartsWith(kThree));
  EXPECT_THAT(both, testing::HasSubstr(":9\r\n:8\r\n"));
}

TEST_F(FleetRespTest, EndsAfterTheLastResponse) {
  fleet.mode = Mode::waits;
  EXPECT_EQ(connection.say("WEIR.TAKE shared k\r\nQUIT\r\n"), "");
  EXPECT_FALSE(session.ends());
  fleet.mode = Mode::answers;
  fleet.deliver();
  EXPECT_EQ(connection.say(""), std::string{kThree} + "+OK\r\n");
  EXPECT_TRUE(session.ends());
}

TEST_F(FleetRespTest, RepliesWithADegradedVerdictOnAStoreFailure) {
  fleet.mode = Mode::unavailable;
  EXPECT_THAT(connection.say("WEIR.TAKE shared k\r\n"),
              StartsWith("*8\r\n:0\r\n:3\r\n:0\r\n:1000\r\n"));
  EXPECT_THAT(connection.say("WEIR.TAKE shared k\r\n"), testing::EndsWith(":1\r\n"));
  EXPECT_THAT(connection.say("WEIR.RESET shared k\r\n"),
              StartsWith("-ERR the store could not be asked"));
  EXPECT_THAT(connection.say("WEIR.EXPLAIN shared k\r\n"), StartsWith("-ERR the store"));
  EXPECT_EQ(connection.say("WEIR.LEAVE rooms k ann\r\n"), ":0\r\n");
  EXPECT_THAT(connection.say("WEIR.LEAVE nobody k ann\r\n"), StartsWith("-ERR there is no policy"));
}

TEST_F(FleetRespTest, SupportsEveryCommandOnTheFleet) {
  EXPECT_THAT(connection.say("WEIR.PEEK shared k\r\n"), StartsWith("*8\r\n:1\r\n:3\r\n:3\r\n"));
  EXPECT_THAT(connection.say("WEIR.TAKE shared k 2 RECEIPT\r\n"),
              StartsWith("*9\r\n:1\r\n:3\r\n:1\r\n"));
  const std::string taken = connection.say("WEIR.TAKE shared k 1 RECEIPT\r\n");
  const std::string receipt = taken.substr(taken.size() - 34, 32);
  EXPECT_THAT(connection.say("WEIR.SETTLE shared k -1 RECEIPT " + receipt + "\r\n"),
              StartsWith("*8\r\n:1\r\n:3\r\n:1\r\n"));
  EXPECT_THAT(connection.say("WEIR.SETTLE shared k 1\r\n"), StartsWith("*8\r\n:1\r\n:3\r\n:0\r\n"));
  EXPECT_EQ(connection.say("WEIR.RESET shared k\r\n"), "+OK\r\n");
  EXPECT_THAT(connection.say("WEIR.EXPLAIN shared k\r\n"), StartsWith("*1\r\n"));
  EXPECT_THAT(connection.say("WEIR.ENTER rooms k ann\r\n"), StartsWith("*9\r\n:1\r\n:2\r\n:1\r\n"));
  EXPECT_EQ(connection.say("WEIR.LEAVE rooms k ann\r\n"), ":1\r\n");
  EXPECT_EQ(connection.say("WEIR.LEAVE rooms k ann\r\n"), ":0\r\n");
  EXPECT_EQ(connection.say("CL.THROTTLE k 1 1 60\r\n"), "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:60\r\n");
}

// The connection has closed before the fleet answers.
TEST_F(FleetSessionTest, IgnoresAnAnswerAfterItsEnd) {
  fleet.mode = Mode::waits;
  auto session = std::make_unique<RespSession>(server.context, peer);
  {
    FakeConnection connection(*session);
    EXPECT_EQ(connection.say("WEIR.TAKE shared k\r\n"), "");
    session = nullptr;
  }
  fleet.mode = Mode::answers;
  fleet.deliver();
  EXPECT_EQ(server.engine.peek({.policy = "shared", .key = "k"}).decision.remaining, 2);
}

class FleetHttpTest : public FleetSessionTest {
 protected:
  std::string post(std::string_view path, std::string_view body) {
    return "POST " + std::string{path} +
           " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + std::string{body};
  }

  HttpSession session{server.context, peer};
  FakeConnection connection{session};
};

TEST_F(FleetHttpTest, AnswersWhenTheFleetHasAnswered) {
  fleet.mode = Mode::waits;
  const std::string take = post("/v1/take", R"({"policy":"shared","key":"k"})");
  EXPECT_EQ(connection.say(take + "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"), "");
  EXPECT_TRUE(session.waits());
  fleet.mode = Mode::answers;
  fleet.deliver();
  const std::string answers = connection.say("");
  EXPECT_THAT(answers, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answers, HasSubstr(R"("remaining":2)"));
  EXPECT_THAT(answers.substr(10), HasSubstr("HTTP/1.1 200 OK\r\n"));  // the response of /healthz
}

TEST_F(FleetHttpTest, SendsTheItemsOfAListTogether) {
  fleet.mode = Mode::waits;
  const std::string batch = post(
      "/v1/take",
      R"([{"policy":"shared","key":"a"},{"policy":"nobody","key":"a"},{"policy":"here","key":"a"},)"
      R"({"policy":"shared","key":"a","permits":3}])");
  EXPECT_EQ(connection.say(batch), "");
  EXPECT_EQ(fleet.waiting(), 2u);
  fleet.mode = Mode::answers;
  fleet.deliver();
  const std::string answer = connection.say("");
  const std::string body = answer.substr(answer.find("\r\n\r\n") + 4);
  EXPECT_THAT(body, StartsWith(R"([{"allowed":true,"limit":3,"remaining":2,)"));
  EXPECT_THAT(body, HasSubstr(R"(},{"error":"there is no policy)"));
  EXPECT_THAT(body, HasSubstr(R"(},{"allowed":true,"limit":9,"remaining":8,)"));
  EXPECT_THAT(body, HasSubstr(R"(},{"allowed":false,"limit":3,"remaining":2,)"));
}

TEST_F(FleetHttpTest, Answers503OnAStoreFailure) {
  fleet.mode = Mode::unavailable;
  const std::string answer = connection.say(post("/v1/take", R"({"policy":"shared","key":"k"})"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(answer, HasSubstr(R"("degraded":true)"));
  EXPECT_THAT(answer, HasSubstr("Retry-After: 1\r\n"));
  EXPECT_THAT(connection.say(post("/v1/explain", R"({"policy":"shared","key":"k"})")),
              StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(connection.say(post("/v1/explain", R"({"policy":"nobody","key":"k"})")),
              StartsWith("HTTP/1.1 404 "));
}

// For nginx: its auth_request turns a 503 into an error of its own.
TEST_F(FleetHttpTest, AnswersAStoreFailureWithTheChosenStatus) {
  fleet.mode = Mode::unavailable;
  const auto get = [&](std::string_view more) {
    return connection.say("GET /v1/auth?policy=shared&key=k" + std::string{more} +
                          " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  };
  EXPECT_THAT(get(""), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(get("&deny=403"), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(get("&permits=0"), StartsWith("HTTP/1.1 400 "));
}

TEST_F(FleetHttpTest, SupportsEveryVerbOnTheFleet) {
  const auto body_of = [&](std::string_view path, std::string_view body) {
    const std::string answer = connection.say(post(path, body));
    return answer.substr(answer.find("\r\n\r\n") + 4);
  };
  const std::string taken =
      body_of("/v1/take", R"({"policy":"shared","key":"k","permits":2,"receipt":true})");
  const std::string receipt = taken.substr(taken.find(R"("receipt":")") + 11, 32);
  EXPECT_THAT(body_of("/v1/settle",
                      R"({"policy":"shared","key":"k","delta":-2,"receipt":")" + receipt + R"("})"),
              HasSubstr(R"("remaining":3)"));
  EXPECT_THAT(body_of("/v1/peek", R"({"policy":"shared","key":"k"})"),
              HasSubstr(R"("remaining":3)"));
  EXPECT_EQ(body_of("/v1/reset", R"({"policy":"shared","key":"k"})"), R"({"reset":true})");
  EXPECT_THAT(body_of("/v1/enter", R"({"policy":"rooms","key":"k","holder":"ann"})"),
              HasSubstr(R"("holder":"ann")"));
  EXPECT_EQ(body_of("/v1/leave", R"({"policy":"rooms","key":"k","holder":"ann"})"),
            R"({"left":true})");
  EXPECT_THAT(body_of("/v1/explain", R"({"policy":"shared","key":"k"})"),
              AllOf(StartsWith(R"({"decision":{"allowed":true)"), HasSubstr(R"("limit":"3/min")")));
  EXPECT_THAT(body_of("/v1/throttle", R"({"key":"k","limit":"2/min"})"),
              HasSubstr(R"("remaining":1)"));
  EXPECT_THAT(
      connection.say("GET /v1/auth?policy=shared&key=k HTTP/1.1\r\nHost: localhost\r\n\r\n"),
      StartsWith("HTTP/1.1 200 "));
}

}  // namespace
}  // namespace weir::server
