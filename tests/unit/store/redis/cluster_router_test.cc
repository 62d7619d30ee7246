// The nodes of a cluster without sockets: the test provides every byte and the time.

#include "store/redis/cluster_router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <optional>

#include "fake_call.h"
#include "fake_servers.h"

namespace weir::store::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

const std::string kMapCommand = "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n";
const std::string kAsking = "*1\r\n$6\r\nASKING\r\n";

// A reply to CLUSTER SLOTS: each node serves the slots from its first one up to that of the next
// node.
std::string map_text(std::vector<std::pair<int, int>> ports_by_first) {
  std::string text = "*" + std::to_string(ports_by_first.size()) + "\r\n";
  for (std::size_t i = 0; i < ports_by_first.size(); ++i) {
    const auto [first, port] = ports_by_first[i];
    const int last = i + 1 < ports_by_first.size() ? ports_by_first[i + 1].first - 1 : 16383;
    text += "*3\r\n:" + std::to_string(first) + "\r\n:" + std::to_string(last) +
            "\r\n*2\r\n$1\r\nh\r\n:" + std::to_string(port) + "\r\n";
  }
  return text;
}

class ClusterRouterTest : public testing::Test {
 protected:
  ClusterRouterTest() {
    options.hosts = {{"h", 1}, {"h", 2}};
    options.name = "redis+cluster://h";
    options.timeout = seconds{5};
    servers.options.timeout = seconds{5};
    servers.options.max_silence = seconds{60};
    servers.options.min_back_off = milliseconds{10};
  }

  ClusterRouter& router() {
    if (!router_) {
      router_.emplace(options, servers.counts, LogCallback{}, servers.maker(), servers.now);
      router_->pump(servers.now);
    }
    return *router_;
  }
  void receive(std::uint16_t port, std::string_view bytes) {
    servers.receive(port, bytes);
    router().pump(servers.now);
  }
  void refuse(std::uint16_t port) {
    servers.refuse(port);
    router().pump(servers.now);
  }
  void advance(Nanos time) {
    servers.now += time;
    router().on_timer(servers.now);
    router().pump(servers.now);
  }
  // A cluster of nodes 1 and 2: node 2 serves "foo" (slot 12182), node 1 serves "bar" (slot 5061).
  void make_ready() {
    router();
    servers.make_ready(1);
    EXPECT_EQ(servers.sent(1), kMapCommand);
    receive(1, map_text({{0, 1}, {8000, 2}}));
    servers.make_ready(2);
  }
  FakeCall& call(std::string key) {
    FakeCall& made = calls.emplace_back(std::move(key));
    made.route = {.began = servers.now, .deadline = servers.now + options.timeout};
    router().call(made, servers.now);
    return made;
  }

  ClusterOptions options;
  FakeServers servers;
  std::deque<FakeCall> calls;

 private:
  std::optional<ClusterRouter> router_;
};

TEST_F(ClusterRouterTest, CallsWaitForTheFirstMapAndGoToTheOwnersOfTheirSlots) {
  router();
  FakeCall& foo = call("foo");
  FakeCall& bar = call("bar");
  servers.make_ready(1);
  EXPECT_EQ(servers.sent(1), kMapCommand);
  receive(1, map_text({{0, 1}, {8000, 2}}));
  servers.at(2).on_connected(servers.now);
  servers.sent(2);
  servers.receive(2, FakeServers::kHello);
  EXPECT_EQ(servers.sent(1), "<bar>");
  EXPECT_EQ(servers.sent(2), "<foo>");
  receive(1, "+1\r\n");
  receive(2, "+2\r\n");
  EXPECT_TRUE(foo.was_answered() && bar.was_answered());
  EXPECT_EQ(servers.counts.maps.get(), 1u);
}

TEST_F(ClusterRouterTest, AnotherHostIsAskedIfOneDoesNotAnswer) {
  router();
  FakeCall& foo = call("foo");
  refuse(1);
  EXPECT_TRUE(foo.is_open());
  servers.make_ready(2);
  EXPECT_EQ(servers.sent(2), kMapCommand);
  receive(2, map_text({{0, 2}}));
  EXPECT_EQ(servers.sent(2), "<foo>");
}

TEST_F(ClusterRouterTest, CallsFailAtOnceWhileNoHostIsReachable) {
  router();
  FakeCall& before = call("foo");
  refuse(1);
  refuse(2);
  EXPECT_TRUE(before.is_unavailable());
  EXPECT_THAT(before.reason, HasSubstr("h:1: Connection refused"));
  EXPECT_TRUE(call("foo").is_unavailable());
  for (int i = 0; i < 100 && !servers.at(1).wants_connection(); ++i) advance(milliseconds{100});
  servers.make_ready(1);
  advance(seconds{3});
  EXPECT_THAT(servers.sent(1), HasSubstr(kMapCommand));
  receive(1, map_text({{0, 1}}));
  EXPECT_TRUE(call("foo").is_open());
}

TEST_F(ClusterRouterTest, AServerWithoutClusterSupportIsAMisconfigurationAndGetsNoCalls) {
  options.hosts = {{"h", 1}};
  router();
  FakeCall& foo = call("foo");
  servers.make_ready(1);
  servers.sent(1);
  receive(1, "-ERR This instance has cluster support disabled\r\n");
  EXPECT_TRUE(foo.has_misconfiguration());
  EXPECT_THAT(foo.reason, HasSubstr("write its address as redis://"));
  EXPECT_TRUE(call("foo").has_misconfiguration());
  EXPECT_EQ(servers.sent(1), "");
}

TEST_F(ClusterRouterTest, ACallThatWaitsForAMapTimesOut) {
  router();
  FakeCall& foo = call("foo");
  advance(seconds{5});
  EXPECT_TRUE(foo.is_unavailable());
}

TEST_F(ClusterRouterTest, FollowsMovedAtOnceAndUpdatesTheMap) {
  make_ready();
  FakeCall& foo = call("foo");
  EXPECT_EQ(servers.sent(2), "<foo>");
  receive(2, "-MOVED 12182 h:1\r\n");
  EXPECT_EQ(servers.sent(1), "<foo>");
  call("foo");
  EXPECT_EQ(servers.sent(1), "<foo>");
  receive(1, "+1\r\n");
  EXPECT_TRUE(foo.was_answered());
  EXPECT_EQ(servers.counts.redirections.get(), 1u);
}

TEST_F(ClusterRouterTest, ConnectsToANewNodeAfterMoved) {
  make_ready();
  FakeCall& foo = call("foo");
  receive(2, "-MOVED 12182 :9\r\n");
  servers.make_ready(9);
  EXPECT_EQ(servers.sent(9), "<foo>");
  receive(9, "-NOSCRIPT no\r\n");
  EXPECT_EQ(servers.sent(9), "<source of foo>");
  receive(9, "+1\r\n");
  EXPECT_TRUE(foo.was_answered());
}

TEST_F(ClusterRouterTest, RefreshesTheMapOnceAfterSeveralMoved) {
  make_ready();
  call("foo");
  call("foo");
  receive(2, "-MOVED 12182 h:1\r\n-MOVED 12182 h:1\r\n");
  servers.sent(1);
  advance(milliseconds{100});
  const std::string sent = servers.sent(1) + servers.sent(2);
  EXPECT_THAT(sent, HasSubstr(kMapCommand));
  EXPECT_EQ(sent.find(kMapCommand), sent.rfind(kMapCommand));
}

TEST_F(ClusterRouterTest, ACallFailsAfterFiveRedirections) {
  make_ready();
  FakeCall& foo = call("foo");
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(foo.is_open());
    servers.receive(2, "-MOVED 12182 h:1\r\n");
    if (foo.is_open()) servers.receive(1, "-MOVED 12182 h:2\r\n");
  }
  EXPECT_TRUE(foo.is_unavailable());
  EXPECT_THAT(foo.reason, HasSubstr("do not agree on the owner of hash slot 12182"));
}

TEST_F(ClusterRouterTest, ARedirectedCallKeepsItsDeadline) {
  make_ready();
  FakeCall& foo = call("foo");
  advance(seconds{3});
  FakeCall& bar = call("bar");
  receive(2, "-MOVED 12182 h:1\r\n");
  advance(seconds{2});
  EXPECT_TRUE(foo.is_unavailable());
  EXPECT_TRUE(bar.is_open());
}

TEST_F(ClusterRouterTest, FollowsAskForOneCallAlsoWithTheSource) {
  make_ready();
  FakeCall& foo = call("foo");
  servers.sent(2);
  receive(2, "-ASK 12182 h:1\r\n");
  EXPECT_EQ(servers.sent(1), kAsking + "<foo>");
  receive(1, "+OK\r\n-NOSCRIPT no\r\n");
  EXPECT_EQ(servers.sent(1), kAsking + "<source of foo>");
  receive(1, "+OK\r\n+1\r\n");
  EXPECT_TRUE(foo.was_answered());
  call("foo");
  EXPECT_EQ(servers.sent(2), "<foo>");
}

TEST_F(ClusterRouterTest, ClusterdownIsUnavailableAndRefreshesTheMap) {
  make_ready();
  FakeCall& foo = call("foo");
  receive(2, "-CLUSTERDOWN The cluster is down\r\n");
  EXPECT_TRUE(foo.is_unavailable());
  advance(milliseconds{100});
  EXPECT_THAT(servers.sent(1) + servers.sent(2), HasSubstr(kMapCommand));
}

TEST_F(ClusterRouterTest, ReadonlyIsUnavailableAndRefreshesTheMap) {
  make_ready();
  FakeCall& foo = call("foo");
  receive(2, "-READONLY You can't write against a read only replica.\r\n");
  EXPECT_TRUE(foo.is_unavailable());
  advance(milliseconds{100});
  EXPECT_THAT(servers.sent(1), HasSubstr(kMapCommand));
}

TEST_F(ClusterRouterTest, TryagainIsUnavailableIfTheCallCannotBeSplit) {
  make_ready();
  FakeCall& foo = call("foo");
  receive(2, "-TRYAGAIN Multiple keys request during rehashing of slot\r\n");
  EXPECT_TRUE(foo.is_unavailable());
}

TEST_F(ClusterRouterTest, ReroutesACallOfAnUnreachableNodeOnceAndRefreshesTheMap) {
  make_ready();
  servers.at(2).on_disconnected("gone", servers.now);
  advance(milliseconds{10});
  FakeCall& foo = call("foo");
  refuse(2);
  EXPECT_THAT(servers.sent(1), HasSubstr("<foo>"));
  receive(1, "-MOVED 12182 h:2\r\n");
  EXPECT_TRUE(foo.is_unavailable());
  advance(milliseconds{100});
  EXPECT_EQ(servers.sent(1), kMapCommand);
  receive(1, map_text({{0, 1}}));
  FakeCall& again = call("foo");
  EXPECT_EQ(servers.sent(1), "<foo>");
  receive(1, "+1\r\n");
  EXPECT_TRUE(again.was_answered());
}

TEST_F(ClusterRouterTest, DoesNotSendACallAgainThatMayHaveBeenExecuted) {
  make_ready();
  FakeCall& foo = call("foo");
  servers.sent(2);
  servers.at(2).on_disconnected("gone", servers.now);
  EXPECT_TRUE(foo.is_unavailable());
  EXPECT_THAT(servers.sent(1), Not(HasSubstr("<foo>")));
}

TEST_F(ClusterRouterTest, AppliesAMapAsAWholeAndDisconnectsFromIdleNodesWithoutSlots) {
  make_ready();
  FakeCall& foo = call("foo");
  servers.sent(2);
  advance(seconds{4});
  call("bar");
  receive(2, "-MOVED 12182 h:1\r\n");
  advance(milliseconds{100});
  const bool asks_first = servers.sent(1).find(kMapCommand) != std::string::npos;
  const std::string map = map_text({{0, 1}, {100, 3}});
  receive(1, asks_first ? "+1\r\n+1\r\n" + map : "+1\r\n+1\r\n");
  if (!asks_first) receive(2, map);
  EXPECT_TRUE(foo.was_answered());
  EXPECT_TRUE(servers.has(3));
  EXPECT_TRUE(servers.has(2));
  advance(seconds{20});
  EXPECT_FALSE(servers.has(2));
  EXPECT_TRUE(servers.has(1));
}

TEST_F(ClusterRouterTest, ASlotWithoutAnOwnerIsUnavailable) {
  router();
  servers.make_ready(1);
  servers.sent(1);
  receive(1, "*1\r\n*3\r\n:0\r\n:99\r\n*2\r\n$1\r\nh\r\n:1\r\n");
  FakeCall& foo = call("foo");
  EXPECT_TRUE(foo.is_unavailable());
  EXPECT_THAT(foo.reason, HasSubstr("no node serves hash slot 12182"));
}

TEST_F(ClusterRouterTest, RefreshesTheMapPeriodically) {
  make_ready();
  advance(seconds{10});
  EXPECT_THAT(servers.sent(1) + servers.sent(2), HasSubstr(kMapCommand));
}

TEST_F(ClusterRouterTest, EndFailsAllPendingCalls) {
  make_ready();
  FakeCall& foo = call("foo");
  router().end();
  EXPECT_TRUE(foo.is_unavailable());
  EXPECT_TRUE(call("bar").is_unavailable());
}

}  // namespace
}  // namespace weir::store::redis
