#include "server/resp_session.h"

#include <gtest/gtest.h>

#include "../allocations.h"
#include "feed.h"
#include "test_server.h"
#include "weir/quota.h"

namespace weir::server {
namespace {

class RespSessionTest : public testing::Test {
 protected:
  static PolicySet some_policies() {
    PolicySet set = *PolicySet::parse("policies: { held: { limits: [ 5 concurrent ] } }");
    set.add("p", per_second(1000).burst(1000));
    const Limit two[] = {per_second(1000), Limit::window(1000, std::chrono::hours{1})};
    set.add("two", two);
    return set;
  }
  std::string say(RespSession& session, std::string_view input) {
    std::string out;
    used = feed(session, input, out);
    return out;
  }

  std::size_t used = 0;
  TestServer server{some_policies()};
  ServerContext& context = server.context;
};

std::string command(std::initializer_list<std::string_view> words) {
  std::string text;
  wire::RespWriter writer(text, 2);
  writer.array(words.size());
  for (const std::string_view word : words) writer.bulk(word);
  return text;
}

TEST_F(RespSessionTest, LeavesAnUnfinishedCommandInTheInput) {
  RespSession session(context, {.address = "::1", .loopback = true});
  const std::string ping = command({"PING"});
  EXPECT_EQ(say(session, ping + ping.substr(0, 5)), "+PONG\r\n");
  EXPECT_EQ(used, ping.size());
}

// Backpressure: a client that does not read its responses cannot fill the memory.
TEST_F(RespSessionTest, StopsReadingWhenTheOutputIsFull) {
  RespSession session(context, {.address = "::1", .loopback = true});
  std::string questions;
  for (int i = 0; i < 1000; ++i) questions += command({"INFO"});
  std::string out;
  used = session.on_input(questions, out);
  EXPECT_LT(used, questions.size());
  // (It looks at the size before each command, and may yield before the output is full.)
  EXPECT_LT(out.size(), net::Protocol::kOutputHighWater + say(session, command({"INFO"})).size());
}

// Short responses may take long to make.
TEST_F(RespSessionTest, YieldsAfterItsTurn) {
  RespSession session(context, {.address = "::1", .loopback = true});
  std::string questions;
  for (int i = 0; i < 16'000; ++i) questions += command({"WEIR.LEAVE", "held", "k", "me"});
  std::string out;
  used = session.on_input(questions, out);
  EXPECT_LT(used, questions.size());
  EXPECT_LT(out.size(), net::Protocol::kOutputHighWater);
  EXPECT_EQ(out.size() * questions.size(), std::string(":0\r\n").size() * 16'000 * used);
}

// Without a token, only this machine may settle and reset.
TEST_F(RespSessionTest, RefusesRemoteChanges) {
  RespSession session(context, {.address = "10.0.0.1", .loopback = false});
  EXPECT_EQ(say(session, command({"WEIR.RESET", "p", "k"})).substr(0, 7), "-NOPERM");
  EXPECT_EQ(say(session, command({"WEIR.SETTLE", "p", "k", "1"})).substr(0, 7), "-NOPERM");
  EXPECT_EQ(say(session, command({"WEIR.TAKE", "p", "k"})).substr(0, 8), "*8\r\n:1\r\n");
}

// Once a connection is warm: takes of one limit, of several limits and by parts.
TEST_F(RespSessionTest, DecidesTakesWithoutAllocating) {
  RespSession session(context, {.address = "::1", .loopback = true});
  std::string takes;
  for (int i = 0; i < 20; ++i) {
    const std::string key = "key " + std::to_string(i);
    takes += command({"WEIR.TAKE", "p", key});
    takes += command({"WEIR.TAKE", "two", key, "2"});
    takes += command({"WEIR.TAKE", "two", "PARTS", "user", key});
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
