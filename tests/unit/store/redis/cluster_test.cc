// The nodes of a cluster without sockets: every byte, and the time, is in the test's hand.

#include "store/redis/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <optional>

#include "fake_call.h"
#include "fake_peer.h"

namespace weir::store::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

const std::string kAskForMap = "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n";
const std::string kAsking = "*1\r\n$6\r\nASKING\r\n";

// One node that has all slots from the first on, up to where the next begins.
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

class ClusterTest : public testing::Test {
 protected:
  ClusterTest() {
    options.hosts = {{"h", 1}, {"h", 2}};
    options.name = "redis+cluster://h";
    options.timeout = seconds{5};
    servers.options.timeout = seconds{5};
    servers.options.longest_silence = seconds{60};
    servers.options.least_back_off = milliseconds{10};
  }

  Cluster& cluster() {
    if (!cluster_) {
      cluster_.emplace(options, servers.counts, Log{}, servers.maker(), servers.now);
      cluster_->turn(servers.now);
    }
    return *cluster_;
  }
  void hears(std::uint16_t port, std::string_view bytes) {
    servers.hears(port, bytes);
    cluster().turn(servers.now);
  }
  void refuse(std::uint16_t port) {
    servers.refuse(port);
    cluster().turn(servers.now);
  }
  void pass(Nanos time) {
    servers.now += time;
    cluster().on_time(servers.now);
    cluster().turn(servers.now);
  }
  // A cluster of nodes 1 and 2: "foo", in slot 12182, is on 2, "bar", in slot 5061, on 1.
  void be_ready() {
    cluster();
    servers.be_ready(1);
    EXPECT_EQ(servers.said(1), kAskForMap);
    hears(1, map_text({{0, 1}, {8000, 2}}));
    servers.be_ready(2);
  }
  FakeCall& call(std::string key) {
    FakeCall& made = calls.emplace_back(std::move(key));
    made.trip = {.began = servers.now, .deadline = servers.now + options.timeout};
    cluster().call(made, servers.now);
    return made;
  }

  ClusterOptions options;
  FakeServers servers;
  std::deque<FakeCall> calls;

 private:
  std::optional<Cluster> cluster_;
};

TEST_F(ClusterTest, CallsWaitForTheFirstMapAndGoToWhoHasTheirSlot) {
  cluster();
  FakeCall& foo = call("foo");
  FakeCall& bar = call("bar");
  servers.be_ready(1);
  EXPECT_EQ(servers.said(1), kAskForMap);
  hears(1, map_text({{0, 1}, {8000, 2}}));
  servers.at(2).on_connected(servers.now);
  servers.said(2);
  servers.hears(2, FakeServers::kHello);
  EXPECT_EQ(servers.said(1), "<bar>");
  EXPECT_EQ(servers.said(2), "<foo>");
  hears(1, "+1\r\n");
  hears(2, "+2\r\n");
  EXPECT_TRUE(foo.was_answered() && bar.was_answered());
  EXPECT_EQ(servers.counts.maps.get(), 1u);
}

TEST_F(ClusterTest, AnotherHostIsAskedIfOneDoesNotAnswer) {
  cluster();
  FakeCall& foo = call("foo");
  refuse(1);
  EXPECT_TRUE(foo.is_open());
  servers.be_ready(2);
  EXPECT_EQ(servers.said(2), kAskForMap);
  hears(2, map_text({{0, 2}}));
  EXPECT_EQ(servers.said(2), "<foo>");
}

TEST_F(ClusterTest, WithoutAnyHostCallsFailAtOnceUntilOneIsThere) {
  cluster();
  FakeCall& before = call("foo");
  refuse(1);
  refuse(2);
  EXPECT_TRUE(before.is_unavailable());
  EXPECT_THAT(before.reason, HasSubstr("h:1: Connection refused"));
  EXPECT_TRUE(call("foo").is_unavailable());
  for (int i = 0; i < 100 && !servers.at(1).wants_connection(); ++i) pass(milliseconds{100});
  servers.be_ready(1);
  pass(seconds{3});
  EXPECT_THAT(servers.said(1), HasSubstr(kAskForMap));
  hears(1, map_text({{0, 1}}));
  EXPECT_TRUE(call("foo").is_open());
}

TEST_F(ClusterTest, AServerThatIsNoClusterIsAMistakeAndIsToldNothing) {
  options.hosts = {{"h", 1}};
  cluster();
  FakeCall& foo = call("foo");
  servers.be_ready(1);
  servers.said(1);
  hears(1, "-ERR This instance has cluster support disabled\r\n");
  EXPECT_TRUE(foo.has_misconfiguration());
  EXPECT_THAT(foo.reason, HasSubstr("write its address as redis://"));
  EXPECT_TRUE(call("foo").has_misconfiguration());
  EXPECT_EQ(servers.said(1), "");
}

TEST_F(ClusterTest, ACallThatWaitsForAMapHasItsOwnTime) {
  cluster();
  FakeCall& foo = call("foo");
  pass(seconds{5});
  EXPECT_TRUE(foo.is_unavailable());
}

TEST_F(ClusterTest, MovedIsFollowedAtOnceAndRemembered) {
  be_ready();
  FakeCall& foo = call("foo");
  EXPECT_EQ(servers.said(2), "<foo>");
  hears(2, "-MOVED 12182 h:1\r\n");
  EXPECT_EQ(servers.said(1), "<foo>");
  call("foo");
  EXPECT_EQ(servers.said(1), "<foo>");
  hears(1, "+1\r\n");
  EXPECT_TRUE(foo.was_answered());
  EXPECT_EQ(servers.counts.redirections.get(), 1u);
}

TEST_F(ClusterTest, MovedToANodeThatIsNewConnectsThere) {
  be_ready();
  FakeCall& foo = call("foo");
  hears(2, "-MOVED 12182 :9\r\n");
  servers.be_ready(9);
  EXPECT_EQ(servers.said(9), "<foo>");
  hears(9, "-NOSCRIPT no\r\n");
  EXPECT_EQ(servers.said(9), "<source of foo>");
  hears(9, "+1\r\n");
  EXPECT_TRUE(foo.was_answered());
}

TEST_F(ClusterTest, MovedLeadsToANewMapButNotTooOften) {
  be_ready();
  call("foo");
  call("foo");
  hears(2, "-MOVED 12182 h:1\r\n-MOVED 12182 h:1\r\n");
  servers.said(1);
  pass(milliseconds{100});
  const std::string said = servers.said(1) + servers.said(2);
  EXPECT_THAT(said, HasSubstr(kAskForMap));
  EXPECT_EQ(said.find(kAskForMap), said.rfind(kAskForMap));
}

TEST_F(ClusterTest, ACallThatIsSentFromNodeToNodeEndsInFiveRedirections) {
  be_ready();
  FakeCall& foo = call("foo");
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(foo.is_open());
    servers.hears(2, "-MOVED 12182 h:1\r\n");
    if (foo.is_open()) servers.hears(1, "-MOVED 12182 h:2\r\n");
  }
  EXPECT_TRUE(foo.is_unavailable());
  EXPECT_THAT(foo.reason, HasSubstr("do not agree on who has slot 12182"));
}

TEST_F(ClusterTest, ACallThatIsRedirectedKeepsItsDeadline) {
  be_ready();
  FakeCall& foo = call("foo");
  pass(seconds{3});
  FakeCall& bar = call("bar");
  hears(2, "-MOVED 12182 h:1\r\n");
  pass(seconds{2});
  EXPECT_TRUE(foo.is_unavailable());
  EXPECT_TRUE(bar.is_open());
}

TEST_F(ClusterTest, AskIsFollowedThisOnceWithTheSourceToo) {
  be_ready();
  FakeCall& foo = call("foo");
  servers.said(2);
  hears(2, "-ASK 12182 h:1\r\n");
  EXPECT_EQ(servers.said(1), kAsking + "<foo>");
  hears(1, "+OK\r\n-NOSCRIPT no\r\n");
  EXPECT_EQ(servers.said(1), kAsking + "<source of foo>");
  hears(1, "+OK\r\n+1\r\n");
  EXPECT_TRUE(foo.was_answered());
  call("foo");
  EXPECT_EQ(servers.said(2), "<foo>");
}

TEST_F(ClusterTest, AClusterThatIsDownIsUnavailableAndAMapIsAskedFor) {
  be_ready();
  FakeCall& foo = call("foo");
  hears(2, "-CLUSTERDOWN The cluster is down\r\n");
  EXPECT_TRUE(foo.is_unavailable());
  pass(milliseconds{100});
  EXPECT_THAT(servers.said(1) + servers.said(2), HasSubstr(kAskForMap));
}

TEST_F(ClusterTest, ANodeThatBecameAReplicaIsUnavailableAndAMapIsAskedFor) {
  be_ready();
  FakeCall& foo = call("foo");
  hears(2, "-READONLY You can't write against a read only replica.\r\n");
  EXPECT_TRUE(foo.is_unavailable());
  pass(milliseconds{100});
  EXPECT_THAT(servers.said(1), HasSubstr(kAskForMap));
}

TEST_F(ClusterTest, KeysThatAreApartAndCannotBeAskedAloneAreUnavailable) {
  be_ready();
  FakeCall& foo = call("foo");
  hears(2, "-TRYAGAIN Multiple keys request during rehashing of slot\r\n");
  EXPECT_TRUE(foo.is_unavailable());
}

TEST_F(ClusterTest, ACallWhoseNodeIsGoneIsAskedElsewhereOnceAndTheMapIsReadAnew) {
  be_ready();
  servers.at(2).on_disconnected("gone", servers.now);
  pass(milliseconds{10});
  FakeCall& foo = call("foo");
  refuse(2);
  EXPECT_THAT(servers.said(1), HasSubstr("<foo>"));
  hears(1, "-MOVED 12182 h:2\r\n");
  EXPECT_TRUE(foo.is_unavailable());
  pass(milliseconds{100});
  EXPECT_EQ(servers.said(1), kAskForMap);
  hears(1, map_text({{0, 1}}));
  FakeCall& again = call("foo");
  EXPECT_EQ(servers.said(1), "<foo>");
  hears(1, "+1\r\n");
  EXPECT_TRUE(again.was_answered());
}

TEST_F(ClusterTest, WhatWasSentIsNotSentAgain) {
  be_ready();
  FakeCall& foo = call("foo");
  servers.said(2);
  servers.at(2).on_disconnected("gone", servers.now);
  EXPECT_TRUE(foo.is_unavailable());
  EXPECT_THAT(servers.said(1), Not(HasSubstr("<foo>")));
}

TEST_F(ClusterTest, AMapIsAppliedWholeAndNodesWithoutSlotsAreLeftWhenIdle) {
  be_ready();
  FakeCall& foo = call("foo");
  servers.said(2);
  pass(seconds{4});
  call("bar");
  hears(2, "-MOVED 12182 h:1\r\n");
  pass(milliseconds{100});
  const bool asks_first = servers.said(1).find(kAskForMap) != std::string::npos;
  const std::string map = map_text({{0, 1}, {100, 3}});
  hears(1, asks_first ? "+1\r\n+1\r\n" + map : "+1\r\n+1\r\n");
  if (!asks_first) hears(2, map);
  EXPECT_TRUE(foo.was_answered());
  EXPECT_TRUE(servers.has(3));
  EXPECT_TRUE(servers.has(2));
  pass(seconds{20});
  EXPECT_FALSE(servers.has(2));
  EXPECT_TRUE(servers.has(1));
}

TEST_F(ClusterTest, ASlotThatNobodyServesIsUnavailable) {
  cluster();
  servers.be_ready(1);
  servers.said(1);
  hears(1, "*1\r\n*3\r\n:0\r\n:99\r\n*2\r\n$1\r\nh\r\n:1\r\n");
  FakeCall& foo = call("foo");
  EXPECT_TRUE(foo.is_unavailable());
  EXPECT_THAT(foo.reason, HasSubstr("no node serves slot 12182"));
}

TEST_F(ClusterTest, MapsAreReadNowAndThen) {
  be_ready();
  pass(seconds{10});
  EXPECT_THAT(servers.said(1) + servers.said(2), HasSubstr(kAskForMap));
}

TEST_F(ClusterTest, ItsEndIsTheEndOfAllCalls) {
  be_ready();
  FakeCall& foo = call("foo");
  cluster().end();
  EXPECT_TRUE(foo.is_unavailable());
  EXPECT_TRUE(call("bar").is_unavailable());
}

}  // namespace
}  // namespace weir::store::redis
