#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../support/fake_fleet.h"
#include "weir/async_engine.h"
#include "world.h"

namespace weir {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using Mode = FakeFleet::Mode;

// A node of a fleet with its own clock.
struct Node {
  Node(FakeFleet& fleet, std::string_view text, DecisionSink* sink = nullptr)
      : engine(policies(text), {.memory = {.bytes = std::size_t{1} << 20},
                                .clock = &clock,
                                .sink = sink,
                                .fleet = &fleet}) {}

  Verdict take(const Request& request) { return engine.take(request); }
  int admits(const Request& request, int n) {
    int admitted = 0;
    for (int i = 0; i < n; ++i) admitted += take(request) ? 1 : 0;
    return admitted;
  }

  ManualClock clock;
  Engine engine;
};

constexpr Request kAsk{.policy = "p", .key = "k"};

TEST(FleetLimits, AreSharedByNodes) {
  FakeFleet fleet;
  Node one(fleet, only("5/min"));
  Node other(fleet, only("5/min"));
  EXPECT_EQ(one.admits(kAsk, 3), 3);
  EXPECT_EQ(other.admits(kAsk, 9), 2);
  EXPECT_FALSE(one.take(kAsk));
}

TEST(FleetLimits, UseTheClockOfTheFleet) {
  FakeFleet fleet;
  Node one(fleet, only("5/min"));
  EXPECT_EQ(one.admits(kAsk, 9), 5);
  one.clock.advance(std::chrono::hours{1});
  EXPECT_EQ(one.admits(kAsk, 9), 0);
  fleet.clock.advance(std::chrono::minutes{1});
  EXPECT_EQ(one.admits(kAsk, 9), 5);
}

TEST(NodeLimits, AreNotSharedByNodes) {
  FakeFleet fleet;
  const std::string text = only("{ limit: 5/min, scope: node }");
  Node one(fleet, text);
  Node other(fleet, text);
  EXPECT_EQ(one.admits(kAsk, 9), 5);
  EXPECT_EQ(other.admits(kAsk, 9), 5);
  EXPECT_THAT(fleet.asked, testing::IsEmpty());
}

TEST(FleetLimits, HaveReadableKeyNames) {
  FakeFleet fleet;
  Node node(fleet,
            "p: { limits: [ 5/min, 7/min, { limit: 9/h window, name: 'per hour' }, 99/day ] }, "
            "q: { limits: [ { by: sku, limit: 5/s }, { by: [ user, sku ], limit: 5/s } ] }");
  (void)node.take({.policy = "p", .key = "a}b c"});
  (void)node.take({.policy = "q", .parts = {{"user", "1,2"}, {"sku", "=7"}}});
  EXPECT_THAT(
      fleet.asked,
      ElementsAre("weir1:{p:a%7Db%20c}:bucket/1min", "weir1:{p:a%7Db%20c}:bucket/1min/2",
                  "weir1:{p:a%7Db%20c}:window=per%20hour", "weir1:{p:a%7Db%20c}:quota/day@UTC",
                  "weir1:{q:sku=%3D7}:bucket/1s", "weir1:{q:sku=%3D7,user=1%2C2}:bucket/1s"));
}

// ---- Limits of the node and of the fleet

// Each user: one call per 5 s on this node. The product: 3 per second over all nodes.
constexpr std::string_view kSale =
    "p: { limits: [ { by: user, limit: 1/5s, scope: node }, { by: sku, limit: 3/s } ] }";

Request buy(std::string_view user) {
  return {.policy = "p", .parts = {{"user", user}, {"sku", "42"}}};
}

TEST(MixedLimits, AreOneDecision) {
  FakeFleet fleet;
  Node one(fleet, kSale);
  Node other(fleet, kSale);
  EXPECT_TRUE(one.take(buy("ann")));
  EXPECT_TRUE(other.take(buy("bob")));
  EXPECT_TRUE(one.take(buy("cid")));
  const Verdict refused = one.take(buy("dan"));
  EXPECT_FALSE(refused);
  EXPECT_EQ(refused.limited_by, "1");
  EXPECT_EQ(refused.refusing, 0b10u);
}

TEST(MixedLimits, RefundTheNodeWhenTheFleetRefuses) {
  FakeFleet fleet;
  Node node(fleet, kSale);
  for (const auto* user : {"ann", "bob", "cid"}) EXPECT_TRUE(node.take(buy(user)));
  EXPECT_FALSE(node.take(buy("dan")));
  fleet.clock.advance(seconds{1});
  EXPECT_TRUE(node.take(buy("dan")));  // the node limit was refunded
}

TEST(MixedLimits, DoNotAskTheFleetWhenTheNodeRefuses) {
  FakeFleet fleet;
  Node node(fleet, kSale);
  EXPECT_TRUE(node.take(buy("ann")));
  const auto asked = fleet.asked.size();
  const Verdict refused = node.take(buy("ann"));
  EXPECT_FALSE(refused);
  EXPECT_EQ(refused.limited_by, "0");
  EXPECT_EQ(refused.decision.retry_after, seconds{5});
  EXPECT_EQ(fleet.asked.size(), asked);
}

TEST(MixedLimits, ReportTheTightestOfAll) {
  FakeFleet fleet;
  Node node(fleet, only("10/min, { limit: 5/h, scope: node }, 5/min"));
  const Verdict verdict = node.take(kAsk);
  EXPECT_EQ(verdict.decision.remaining, 4);
  EXPECT_EQ(verdict.limited_by, "1");  // the first of equal limits
  const Verdict peeked = node.engine.peek({.policy = "p", .key = "k", .permits = 5});
  EXPECT_EQ(peeked.limited_by, "1");  // the longest retry_after
  EXPECT_EQ(peeked.refusing, 0b110u);
}

TEST(MixedLimits, NeverRefuseByAShadow) {
  FakeFleet fleet;
  Node node(fleet, only("{ limit: 1/min, shadow: true }, { limit: 3/min, scope: node }"));
  EXPECT_EQ(node.admits(kAsk, 5), 3);
  Node only_shadows(fleet,
                    "q: { limits: [ { limit: 1/min, shadow: true }, { limit: 1/min, shadow: true, "
                    "scope: node } ] }");
  EXPECT_EQ(only_shadows.admits({.policy = "q", .key = "k"}, 5), 5);
  EXPECT_EQ(only_shadows.take({.policy = "q", .key = "k"}).refusing, 0b11u);
}

TEST(MixedLimits, AreSettledWhereTheyWereTaken) {
  FakeFleet fleet;
  Node node(fleet, only("100/min, { limit: 100/h, scope: node }"));
  Receipt receipt;
  EXPECT_TRUE(node.engine.take({.policy = "p", .key = "k", .permits = 40}, receipt));
  EXPECT_THAT(all_left(node.engine, kAsk), ElementsAre(60, 60));
  (void)node.engine.settle({.policy = "p", .key = "k", .permits = -30}, receipt);
  EXPECT_THAT(all_left(node.engine, kAsk), ElementsAre(90, 90));
  (void)node.engine.settle({.policy = "p", .key = "k", .permits = -30}, receipt);
  EXPECT_THAT(all_left(node.engine, kAsk), ElementsAre(100, 100));
  (void)node.engine.settle({.policy = "p", .key = "k", .permits = 7});
  EXPECT_THAT(all_left(node.engine, kAsk), ElementsAre(93, 93));
  EXPECT_EQ(node.engine.reset(kAsk), std::nullopt);
  EXPECT_THAT(all_left(node.engine, kAsk), ElementsAre(100, 100));
}

TEST(MixedLimits, RefundTheNodeOnceWhenTheFleetDoesNotAnswer) {
  FakeFleet fleet;
  Node node(fleet, only("100/min, { limit: 100/h, scope: node }", "on_store_failure: open"));
  Receipt receipt;
  EXPECT_TRUE(node.engine.take({.policy = "p", .key = "k", .permits = 40}, receipt));
  const Request refund{.policy = "p", .key = "k", .permits = -10};
  fleet.mode = Mode::unavailable;
  EXPECT_TRUE(node.engine.settle(refund, receipt).degraded);
  EXPECT_TRUE(node.engine.settle(refund, receipt).degraded);
  fleet.mode = Mode::answers;
  EXPECT_FALSE(node.engine.settle(refund, receipt).degraded);
  EXPECT_THAT(all_left(node.engine, kAsk), ElementsAre(70, 70));
  EXPECT_FALSE(node.engine.settle(refund, receipt).degraded);
  EXPECT_THAT(all_left(node.engine, kAsk), ElementsAre(80, 80));
}

TEST(FleetLimits, CanBeEnteredAndLeft) {
  FakeFleet fleet;
  Node one(fleet, only("2 concurrent, 100/min"));
  Node other(fleet, only("2 concurrent, 100/min"));
  EXPECT_TRUE(one.engine.enter(kAsk, "a"));
  EXPECT_TRUE(other.engine.enter(kAsk, "b"));
  EXPECT_TRUE(other.engine.enter(kAsk, "a"));  // renews
  EXPECT_FALSE(one.engine.enter(kAsk, "c"));
  EXPECT_TRUE(one.engine.leave(kAsk, "b"));
  EXPECT_FALSE(one.engine.leave(kAsk, "b"));
  EXPECT_TRUE(other.engine.enter(kAsk, "c"));
}

TEST(FleetLimits, CanBeAdHocLimits) {
  FakeFleet fleet;
  Node one(fleet, "");
  Node other(fleet, "");
  EXPECT_TRUE(one.engine.throttle(Limit::window(2, seconds{60}), "k"));
  EXPECT_TRUE(other.engine.throttle(Limit::window(2, seconds{60}), "k"));
  EXPECT_FALSE(one.engine.throttle(Limit::window(2, seconds{60}), "k"));
  EXPECT_EQ(fleet.asked.front(), "weir1:{:k}:window/1min");
  fleet.mode = Mode::unavailable;
  const Verdict alone = one.engine.throttle(Limit::window(2, seconds{60}), "k");
  EXPECT_TRUE(alone);
  EXPECT_TRUE(alone.degraded);
}

// ---- Outages

TEST(FleetOutage, FollowsThePolicysFailureMode) {
  FakeFleet fleet;
  const auto with = [](std::string_view mode) {
    return only("3/min", "on_store_failure: " + std::string{mode});
  };
  Node open(fleet, with("open"));
  Node closed(fleet, with("closed"));
  Node local(fleet, with("local"));
  fleet.mode = Mode::unavailable;
  EXPECT_EQ(open.admits(kAsk, 9), 9);
  EXPECT_EQ(closed.admits(kAsk, 9), 0);
  EXPECT_EQ(local.admits(kAsk, 9), 3);
  for (Node* node : {&open, &closed, &local}) EXPECT_TRUE(node->take(kAsk).degraded);
  EXPECT_GT(closed.take(kAsk).decision.retry_after, Nanos{0});
  fleet.mode = Mode::answers;
  EXPECT_FALSE(closed.take(kAsk).degraded);
  EXPECT_EQ(closed.admits(kAsk, 9), 2);
}

// Without the store, each node uses its part of a limit.
TEST(FleetOutage, LeavesEachNodeItsPart) {
  FakeFleet fleet;
  fleet.node_count = 3;
  Node node(fleet, only("30/min"));
  fleet.mode = Mode::unavailable;
  EXPECT_EQ(node.admits(kAsk, 20), 10);
  EXPECT_TRUE(node.engine.throttle(Limit::window(3, seconds{60}), "k"));
  EXPECT_FALSE(node.engine.throttle(Limit::window(3, seconds{60}), "k"));
  fleet.mode = Mode::answers;
  EXPECT_EQ(node.admits(kAsk, 40), 30);
}

// By the rate at which it was used, the share would be full again.
TEST(FleetOutage, RefillsTheShareOfALoweredLimitAtTheLowerRate) {
  FakeFleet fleet;
  fleet.node_count = 2;
  Node node(fleet, only("60/h burst 60"));
  fleet.mode = Mode::unavailable;
  EXPECT_TRUE(node.take({.policy = "p", .key = "k", .permits = 30}));
  node.engine.replace(policies(only("6/h burst 60")));
  node.clock.advance(std::chrono::hours{1});
  EXPECT_EQ(node.engine.peek(kAsk).decision.remaining, 3);
}

// A configuration error must not switch limits off.
TEST(FleetMisconfiguration, NeverOpensALimit) {
  FakeFleet fleet;
  Node open(fleet, only("3/min", "on_store_failure: open"));
  fleet.mode = Mode::misconfigured;
  EXPECT_EQ(open.admits(kAsk, 9), 0);
  EXPECT_TRUE(open.take(kAsk).degraded);
}

TEST(FleetOutage, ChargesNoNodeLimitForRefusedCalls) {
  FakeFleet fleet;
  Node node(fleet, only("{ limit: 1/h, scope: node }, 5/s", "on_store_failure: closed"));
  fleet.mode = Mode::unavailable;
  EXPECT_EQ(node.admits(kAsk, 3), 0);
  fleet.mode = Mode::answers;
  EXPECT_TRUE(node.take(kAsk));
}

TEST(FleetOutage, LeavesNodeLimitsInForce) {
  FakeFleet fleet;
  Node node(fleet, only("{ limit: 2/h, scope: node }, 5/s", "on_store_failure: open"));
  fleet.mode = Mode::unavailable;
  EXPECT_EQ(node.admits(kAsk, 5), 2);
}

TEST(FleetOutage, RefundsTheNodeForPermitsTakenMeanwhile) {
  FakeFleet fleet;
  Node node(fleet, only("10/min"));
  fleet.mode = Mode::unavailable;
  Receipt receipt;
  EXPECT_TRUE(node.engine.take({.policy = "p", .key = "k", .permits = 8}, receipt));
  fleet.mode = Mode::answers;
  // The fleet did not admit it, and must not be asked to refund it.
  (void)node.engine.settle({.policy = "p", .key = "k", .permits = -8}, receipt);
  EXPECT_EQ(node.engine.peek(kAsk).decision.remaining, 10);
  fleet.mode = Mode::unavailable;
  EXPECT_EQ(node.engine.peek(kAsk).decision.remaining, 10);
}

TEST(FleetOutage, IsAnErrorForResetAndExplain) {
  FakeFleet fleet;
  Node node(fleet, only("10/min", "on_store_failure: open"));
  fleet.mode = Mode::unavailable;
  EXPECT_THAT(node.engine.reset(kAsk)->message,
              testing::HasSubstr("the store could not be asked: it is not there"));
  EXPECT_FALSE(node.engine.explain(kAsk));
}

// ---- Asynchronous calls

TEST(AsyncEngine, CallsBackWithTheAnswerOfTheFleet) {
  FakeFleet fleet;
  Node node(fleet, only("1/min, { limit: 9/min, scope: node }"));
  const auto link = fleet.connect();
  AsyncEngine async(node.engine, *link);
  fleet.mode = Mode::waits;
  std::vector<std::string> results;
  for (const std::string key : {"a", "a", "b"}) {
    async.take({.policy = "p", .key = key}, [&results, key](const Verdict& verdict) {
      results.push_back(key + (verdict ? " passes" : " does not"));
    });
  }
  EXPECT_THAT(results, testing::IsEmpty());
  // The policies may change before the answer.
  node.engine.replace(policies("other: { limits: [ 1/s ] }"));
  fleet.mode = Mode::answers;
  fleet.deliver();
  EXPECT_THAT(results, ElementsAre("a passes", "a does not", "b passes"));
}

TEST(AsyncEngine, CallsBackAtOnceWithoutFleetLimits) {
  FakeFleet fleet;
  Node node(fleet, "p: { limits: [ { limit: 1/min, scope: node } ] }, q: { limits: [ 1/min ] }");
  const auto link = fleet.connect();
  AsyncEngine async(node.engine, *link);
  fleet.mode = Mode::waits;
  int results = 0;
  const auto count = [&](const Verdict&) { ++results; };
  async.take({.policy = "p", .key = "k"}, count);
  async.take({.policy = "nobody", .key = "k"}, count);
  async.take({.policy = "q", .key = ""}, count);
  EXPECT_EQ(results, 3);
  async.take({.policy = "q", .key = "k"}, count);
  EXPECT_EQ(results, 3);
  fleet.deliver();
  EXPECT_EQ(results, 4);
}

TEST(AsyncEngine, ReportsDecisionsToTheSink) {
  struct Sink final : DecisionSink {
    void on_decision(const DecisionEvent& event) noexcept override {
      seen.push_back(std::string{event.policy} + " " + std::string{event.request.key} +
                     (event.verdict ? " +" : " -") + (event.verdict.degraded ? "!" : ""));
    }
    std::vector<std::string> seen;
  } sink;
  FakeFleet fleet;
  Node node(fleet, only("1/min"), &sink);
  (void)node.take(kAsk);
  (void)node.take(kAsk);
  fleet.mode = Mode::unavailable;
  (void)node.take(kAsk);
  EXPECT_THAT(sink.seen, ElementsAre("p k +", "p k -", "p k +!"));
}

}  // namespace
}  // namespace weir
