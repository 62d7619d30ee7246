#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../support/fake_fleet.h"
#include "weir/async_engine.h"
#include "world.h"

namespace weir {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Request kAsk{.policy = "p", .key = "k"};

std::string split(std::string_view limit, std::string_view more = {}) {
  return only("{ limit: " + std::string{limit} + ", scope: split }", more);
}

// A node with the membership that the test sets.
struct Node {
  explicit Node(std::string_view text) : engine(policies(text), options()) {}

  EngineOptions options() {
    EngineOptions small = small_on(clock);
    small.fleet = &fleet;
    return small;
  }

  // A founder of the fleet: no permits were used before.
  Node& founds(std::uint32_t rank, std::uint32_t nodes) {
    fleet.stands(rank, nodes);
    fleet.steps.back().founding = true;
    (void)engine.split_limits();
    return *this;
  }
  void is_left_out() { fleet.stands(std::vector<Membership::NodeRank>{}); }

  Verdict take(const Request& request = kAsk) { return engine.take(request); }
  int admits(int n, const Request& request = kAsk) {
    int admitted = 0;
    for (int i = 0; i < n; ++i) admitted += take(request) ? 1 : 0;
    return admitted;
  }
  Permits part() { return engine.split_limits().at(0).share.part; }

  FakeFleet fleet;
  ManualClock clock;
  Engine engine;
};

// ---- Parts

TEST(SplitLimits, GiveEachNodeItsPart) {
  for (const char* limit : {"10/s", "10/h window", "10/h window from first", "10/h sliding",
                            "10/h sliding exact", "10/day", "10/s queue 9 nodelay"}) {
    Node node(split(limit));
    node.founds(1, 2);
    EXPECT_EQ(node.admits(20), 5) << limit;
  }
}

TEST(SplitLimits, GiveTheRemainderToTheFirstNodes) {
  std::vector<int> admitted;
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    Node node(split("10/h window"));
    admitted.push_back(node.founds(rank, 4).admits(20));
  }
  EXPECT_THAT(admitted, ElementsAre(3, 3, 2, 2));
}

// Rate and burst are scaled alike: the part fills as fast as the whole.
TEST(SplitLimits, SplitRateAndBurstAlike) {
  Node node(split("10/s burst 4"));
  node.founds(0, 3);
  EXPECT_EQ(node.admits(9), 2);
  node.clock.advance(milliseconds{199});
  EXPECT_EQ(node.admits(9), 0);
  node.clock.advance(milliseconds{1});
  EXPECT_EQ(node.admits(9), 1);
}

TEST(SplitLimits, DoNotAskTheFleet) {
  Node node(split("10/s"));
  node.founds(0, 2);
  node.fleet.mode = FakeFleet::Mode::unavailable;
  const Verdict verdict = node.take();
  EXPECT_TRUE(verdict);
  EXPECT_FALSE(verdict.degraded);
  EXPECT_EQ(verdict.decision.limit, 5);
  EXPECT_EQ(verdict.decision.remaining, 4);
  EXPECT_THAT(node.fleet.asked, IsEmpty());
}

// The smallest part of all generations that some node may still use.
TEST(SplitLimits, UseTheSmallestPlace) {
  Node node(split("12/h window"));
  node.founds(0, 2);
  node.fleet.stands({{.nodes = 2, .rank = 0}, {.nodes = 4, .rank = 3}, {.nodes = 3, .rank = 0}});
  EXPECT_EQ(node.part(), 3);
  node.fleet.stands({{.nodes = 3, .rank = 0}, {.nodes = 2}});
  EXPECT_EQ(node.part(), 0);
}

TEST(SplitLimits, CountOnTheNodeWithoutAFleet) {
  OnePolicy alone("{ limit: 10/h window, scope: split }");
  EXPECT_EQ(alone.admits(20), 10);
}

// ---- Shrinking and growing

TEST(SplitLimits, ShrinkAtOnceAndKeepUsage) {
  Node node(split("12/h window"));
  node.founds(0, 2);
  EXPECT_EQ(node.admits(2), 2);
  node.fleet.stands(0, 3);
  EXPECT_EQ(node.admits(20), 2);
}

TEST(SplitBucket, GrowsWhenTheOthersPartHasRefilled) {
  Node node(split("10/s burst 20"));
  node.founds(0, 2);
  EXPECT_EQ(node.admits(20), 10);
  node.fleet.stands(0, 1);
  EXPECT_EQ(node.admits(20), 0);
  node.clock.advance(milliseconds{1999});
  EXPECT_EQ(node.part(), 10);
  node.clock.advance(milliseconds{1});
  EXPECT_EQ(node.part(), 20);
  EXPECT_EQ(node.admits(50), 20);
}

TEST(SplitWindow, GrowsAfterOnePeriod) {
  Node node(split("10/min window"));
  node.founds(0, 2);
  node.fleet.stands(0, 1);
  EXPECT_EQ(node.part(), 5);
  node.clock.advance(seconds{59});
  EXPECT_EQ(node.part(), 5);
  node.clock.advance(seconds{1});
  EXPECT_EQ(node.part(), 10);
}

// The previous window counts as well, so it takes two.
TEST(SplitSlidingWindow, GrowsAfterTwoPeriods) {
  Node node(split("10/min sliding"));
  node.founds(0, 2);
  node.fleet.stands(0, 1);
  EXPECT_EQ(node.part(), 5);
  node.clock.advance(seconds{119});
  EXPECT_EQ(node.part(), 5);
  node.clock.advance(seconds{1});
  EXPECT_EQ(node.part(), 10);
}

TEST(SplitCalendarWindow, GrowsWithTheNextDay) {
  Node node(split("10/day"));
  node.founds(0, 2);
  node.clock.advance(hours{23});
  node.fleet.stands(0, 1);
  EXPECT_EQ(node.part(), 5);
  const Instant day = Instant{std::chrono::ceil<std::chrono::days>(node.clock.now())};
  node.clock.advance(day - node.clock.now() - Nanos{1});
  EXPECT_EQ(node.part(), 5);
  node.clock.advance(Nanos{1});
  EXPECT_EQ(node.part(), 10);
}

// The growth counts from its due time, and not from the next call.
TEST(SplitLimits, GrowWithoutCallsInBetween) {
  Node node(split("10/min window"));
  node.founds(0, 2);
  node.clock.advance(seconds{90});
  node.fleet.stands(0, 1, seconds{60});
  EXPECT_EQ(node.part(), 10);
}

TEST(SplitLimits, DoNotGrowIfTheyShrinkBefore) {
  Node node(split("12/min window"));
  node.founds(0, 2);
  node.fleet.stands(0, 1);
  EXPECT_EQ(node.part(), 6);
  node.clock.advance(seconds{30});
  node.fleet.stands(0, 3);
  EXPECT_EQ(node.part(), 4);
  node.clock.advance(hours{1});
  EXPECT_EQ(node.part(), 4);
}

// Permits that another node used in between are not available again.
TEST(SplitLimits, ApplyAMissedShrinkAfterwards) {
  Node node(split("12/min window"));
  node.founds(0, 2);
  node.clock.advance(seconds{10});
  node.fleet.stands(0, 3, seconds{8});
  node.fleet.stands(0, 2, seconds{2});
  EXPECT_EQ(node.part(), 4);
  node.clock.advance(seconds{58});
  EXPECT_EQ(node.part(), 6);
}

// ---- New members

TEST(NewMember, StartsWithAnEmptyBucket) {
  Node node(split("10/s burst 20"));
  node.fleet.stands(1, 2);
  EXPECT_EQ(node.admits(9), 0);
  EXPECT_EQ(node.part(), 10);
  EXPECT_EQ(node.take().decision.retry_after, milliseconds{200});
  node.clock.advance(milliseconds{600});
  EXPECT_EQ(node.admits(9), 3);
  EXPECT_EQ(node.admits(9, {.policy = "p", .key = "another"}), 3);
  node.clock.advance(hours{1});
  EXPECT_EQ(node.admits(20), 10);
  EXPECT_EQ(node.admits(20, {.policy = "p", .key = "third"}), 10);
}

TEST(NewMember, CanShrinkBeforeItsBucketIsFull) {
  Node node(split("10/s burst 20"));
  node.fleet.stands(1, 2);
  EXPECT_EQ(node.admits(9), 0);
  node.clock.advance(seconds{1});
  node.fleet.stands(1, 4);
  EXPECT_EQ(node.admits(9), 0);  // five of ten were owed, and five is all there is
  node.clock.advance(milliseconds{400});
  EXPECT_EQ(node.admits(9), 1);
}

TEST(NewMember, RefusesUntilTheWindowEnds) {
  Node node(split("10/min window"));
  node.fleet.stands(1, 2);
  const Verdict verdict = node.take();
  EXPECT_EQ(verdict.decision.outcome, Outcome::limited);
  EXPECT_EQ(verdict.decision.retry_after, minutes{1});
  EXPECT_EQ(verdict.limited_by, "0");
  EXPECT_EQ(verdict.refusing, 1u);
  EXPECT_FALSE(verdict.degraded);
  node.clock.advance(minutes{1});
  EXPECT_EQ(node.admits(20), 5);
}

TEST(ReturningMember, StartsAtZeroWithoutCallsInBetween) {
  Node node(split("10/s burst 20"));
  node.founds(0, 2);
  node.clock.advance(hours{1});
  node.is_left_out();
  node.fleet.stands(1, 2);
  EXPECT_EQ(node.admits(9), 0);
  node.clock.advance(milliseconds{200});
  EXPECT_EQ(node.admits(9), 1);
}

// ---- Shares of 0

TEST(SplitLimits, RefuseOnTheLastNodesIfTooSmall) {
  Node node(split("2/s"));
  node.founds(2, 3);
  const Verdict verdict = node.take();
  EXPECT_EQ(verdict.decision.outcome, Outcome::limited);
  EXPECT_EQ(verdict.decision.limit, 0);
  EXPECT_EQ(verdict.decision.retry_after, seconds{1});
  EXPECT_FALSE(node.engine.peek(kAsk));
  EXPECT_EQ(node.part(), 0);
}

TEST(ZeroShare, ChargesNoOtherLimit) {
  Node node(only("{ limit: 2/s, scope: split, name: all }, { limit: 9/s, scope: node }"));
  node.founds(2, 3);
  EXPECT_EQ(node.admits(20), 0);
  const auto states = node.engine.explain(kAsk);
  EXPECT_EQ(states->at(0).decision.outcome, Outcome::limited);
  EXPECT_EQ(states->at(1).decision.remaining, 9);
}

TEST(SplitLimits, NeverRefuseByAShadow) {
  Node node(only("{ limit: 2/s, scope: split, shadow: true }, { limit: 9/s, scope: node }"));
  node.founds(2, 3);
  const Verdict verdict = node.take();
  EXPECT_TRUE(verdict);
  EXPECT_EQ(verdict.refusing, 1u);
  EXPECT_EQ(verdict.decision.remaining, 8);
}

// ---- Nodes without membership

TEST(CutOffNode, KeepsItsPartUnderLocal) {
  Node node(split("10/s", "on_store_failure: local"));
  node.founds(0, 2);
  node.fleet.member = false;
  const Verdict verdict = node.take();
  EXPECT_TRUE(verdict);
  EXPECT_TRUE(verdict.degraded);
  EXPECT_EQ(node.admits(20), 4);
}

TEST(CutOffNode, RefusesUnderClosed) {
  Node node(split("10/s", "on_store_failure: closed"));
  node.founds(0, 2);
  node.fleet.member = false;
  const Verdict verdict = node.take();
  EXPECT_EQ(verdict.decision.outcome, Outcome::limited);
  EXPECT_EQ(verdict.decision.retry_after, seconds{1});
  EXPECT_EQ(verdict.refusing, 0u);
  EXPECT_TRUE(verdict.degraded);
  EXPECT_TRUE(node.engine.peek(kAsk).degraded);
  node.fleet.member = true;
  EXPECT_EQ(node.admits(20), 5);
}

TEST(CutOffNode, AdmitsUnderOpen) {
  Node node(only("{ limit: 10/s, scope: split }, { limit: 15/s, scope: node }",
                 "on_store_failure: open"));
  node.founds(0, 2);
  node.fleet.member = false;
  EXPECT_EQ(node.admits(20), 15);
  EXPECT_TRUE(node.take().degraded);
}

// A configuration error never opens a policy.
TEST(MisconfiguredNode, RefusesEvenUnderOpen) {
  Node node(split("10/s", "on_store_failure: open"));
  node.founds(0, 2);
  node.fleet.member = false;
  node.fleet.mistaken = true;
  EXPECT_FALSE(node.take());
  EXPECT_TRUE(node.take().degraded);
}

// The number of nodes is unknown: as for fleet limits, the node counts as the only one.
TEST(NodeWithoutMembership, UsesTheWholeLimitUnderLocal) {
  Node node(split("10/s"));
  EXPECT_EQ(node.admits(20), 10);
  EXPECT_TRUE(node.take().degraded);
  node.fleet.stands(1, 2);
  EXPECT_FALSE(node.take().degraded);
  EXPECT_EQ(node.part(), 5);
}

// ---- With other limits

TEST(SplitLimits, AreOneDecisionWithFleetLimits) {
  Node node(
      only("{ limit: 10/h window, scope: split, name: mine }, "
           "{ limit: 7/h window, scope: fleet, name: ours }"));
  node.founds(0, 2);
  EXPECT_EQ(node.admits(3), 3);
  EXPECT_EQ(node.fleet.asked.size(), 3u);
  EXPECT_EQ(node.admits(5), 2);
  EXPECT_EQ(node.fleet.asked.size(), 5u);  // refused calls are not sent to the fleet
  EXPECT_EQ(node.take().limited_by, "mine");
  EXPECT_THAT(all_left(node.engine, kAsk), ElementsAre(0, 2));
}

TEST(SplitLimits, AreRefundedWhenTheFleetRefuses) {
  Node node(only("{ limit: 10/h window, scope: split }, { limit: 2/h window, scope: fleet }"));
  node.founds(0, 2);
  EXPECT_EQ(node.admits(9), 2);
  EXPECT_THAT(all_left(node.engine, kAsk), ElementsAre(3, 0));
}

TEST(CutOffNode, IsReportedByCallsToTheFleet) {
  Node node(only("{ limit: 10/s, scope: split }, { limit: 9/s, scope: fleet }"));
  node.founds(0, 2);
  node.fleet.member = false;
  const Verdict verdict = node.take();
  EXPECT_TRUE(verdict);
  EXPECT_TRUE(verdict.degraded);
}

// Also when the leased limits are decided at once.
TEST(CutOffNode, IsReportedBesideLeasedLimits) {
  Node node(only("{ limit: 10/s, scope: split }, { limit: 9/h window, scope: leased }",
                 "on_store_failure: open"));
  node.founds(0, 2);
  EXPECT_FALSE(node.take().degraded);
  node.fleet.member = false;
  const auto link = node.fleet.connect();
  AsyncEngine async(node.engine, *link);
  std::vector<Verdict> verdicts;
  for (int i = 0; i < 12; ++i) {
    async.take(kAsk, [&](const Verdict& verdict) { verdicts.push_back(verdict); });
  }
  ASSERT_EQ(verdicts.size(), 12u);
  EXPECT_TRUE(verdicts.front());
  EXPECT_FALSE(verdicts.back());
  for (const Verdict& verdict : verdicts) {
    EXPECT_TRUE(verdict.degraded);
    EXPECT_EQ(verdict.refusing & 1, 0u);  // the split limit is not asked any more
  }
}

TEST(SplitLimits, RefuseATakeWithReceiptWithoutAskingTheFleet) {
  Node node(only("{ limit: 2/s, scope: split }, { limit: 9/s, scope: fleet }"));
  node.founds(2, 3);
  Receipt receipt;
  EXPECT_FALSE(node.engine.take(kAsk, receipt));
  EXPECT_FALSE(node.engine.enter(kAsk, "holder"));
  EXPECT_THAT(node.fleet.asked, IsEmpty());
}

TEST(SplitLimits, CanBeOverridden) {
  Node node(
      "p: { limits: [ { limit: 10/h window, scope: split } ], "
      "overrides: { vip: { limit: 100/h window, scope: split } } }");
  node.founds(0, 2);
  const Request vip{.policy = "p", .key = "vip"};
  EXPECT_EQ(node.admits(200, vip), 50);
  node.fleet.stands(0, 1);
  EXPECT_EQ(node.admits(200, vip), 0);
  node.clock.advance(hours{1});
  EXPECT_EQ(node.admits(200, vip), 100);
}

TEST(SplitLimits, StaySplitAfterAReload) {
  Node node(split("10/h window"));
  node.founds(0, 2);
  EXPECT_EQ(node.admits(3), 3);
  node.engine.replace(policies(split("20/h window")));
  EXPECT_EQ(node.part(), 10);
  EXPECT_EQ(node.admits(20), 7);
}

// The part may have been used meanwhile, by other nodes or by this one.
TEST(SplitLimits, StartAtZeroWhenTheyReturn) {
  for (const char* limit : {"300/h", "300/h window", "300/h sliding exact"}) {
    const std::string with = split(limit);
    // The policy, or only its limit, is removed and returns.
    for (const std::string& without : {only("1/s"), std::string{"q: { limits: [ 1/s ] }"}}) {
      Node node(with);
      node.founds(0, 2);
      EXPECT_EQ(node.admits(400), 150) << limit;
      node.engine.replace(policies(without));
      node.engine.replace(policies(with));
      EXPECT_EQ(node.admits(400), 0) << limit << " after " << without;
      node.clock.advance(hours{2});
      EXPECT_EQ(node.admits(400), 150) << limit << " after " << without;
    }
  }
}

// Other nodes may have had the limit for longer, and may have used what is now this node's part.
TEST(SplitLimits, StartAtZeroWhenAMemberGetsThemByAReload) {
  for (const char* limit : {"300/h", "300/h window", "300/h sliding exact"}) {
    const std::string with = split(limit);
    // The policy, the limit or only its scope is new.
    for (const std::string& without :
         {std::string{"q: { limits: [ 1/s ] }"}, split("1/s"),
          only("{ limit: " + std::string{limit} + ", scope: node }")}) {
      Node node(without);
      node.founds(0, 2);
      node.clock.advance(minutes{1});
      node.engine.replace(policies(with));
      EXPECT_EQ(node.admits(400), 0) << limit << " after " << without;
      node.clock.advance(hours{2});
      EXPECT_EQ(node.admits(400), 150) << limit << " after " << without;
    }
  }
}

// The node made its membership steps before it had split limits.
TEST(SplitLimits, StartAtTheCurrentMembershipAfterAReload) {
  Node node("q: { limits: [ 1/s ] }");
  node.fleet.stands({{.nodes = 2, .rank = 0}}, hours{2});
  node.fleet.steps.back().founding = true;
  node.engine.replace(policies(split("300/h")));
  EXPECT_EQ(node.admits(400), 0);
  node.clock.advance(hours{1});
  EXPECT_EQ(node.admits(400), 150);
}

TEST(SplitLimits, StartAtZeroInANewEngineOfAMember) {
  Node node(split("300/h"));
  node.founds(0, 2);
  node.fleet.steps.back().ago = hours{2};
  EXPECT_EQ(node.admits(400), 150);
  Engine another(policies(split("300/h")), node.options());
  EXPECT_FALSE(another.take(kAsk));
  node.clock.advance(hours{1});
  EXPECT_TRUE(another.take({.policy = "p", .key = "k", .permits = 150}));
}

TEST(SplitLimits, StartFullIfTheyPrecedeTheFleet) {
  Node node("q: { limits: [ 1/s ] }");
  // In the first two seconds of a fleet, the part of every node is 0.
  node.fleet.stands({{.nodes = 0}, {.nodes = 2, .rank = 0}});
  node.fleet.steps.back().founding = true;
  node.engine.replace(policies(split("300/h")));
  EXPECT_EQ(node.admits(400), 0);
  node.founds(0, 2);
  EXPECT_EQ(node.admits(400), 150);
}

// A node that left may have used what is now this node's part.
TEST(Founder, StartsLaterWithAnEmptyBucketIfItHadNoPart) {
  Node node(split("60/min burst 2"));
  node.founds(2, 3);
  EXPECT_EQ(node.part(), 0);
  node.founds(1, 2);
  EXPECT_EQ(node.part(), 1);
  EXPECT_EQ(node.admits(9), 0);
  node.clock.advance(seconds{2});
  EXPECT_EQ(node.admits(9), 1);
}

// A node that left may have used all of its part at once, which is owed under the new limit.
TEST(SplitLimits, GrowLaterIfTheLimitIsLowered) {
  Node node(split("600/min"));
  node.founds(0, 2);
  node.fleet.stands(0, 1);
  EXPECT_EQ(node.part(), 300);
  node.clock.advance(seconds{30});
  node.engine.replace(policies(split("60/min")));
  EXPECT_EQ(node.part(), 30);
  node.clock.advance(seconds{299});  // 150 of 300 permits, at 30 a minute
  EXPECT_EQ(node.part(), 30);
  node.clock.advance(seconds{1});
  EXPECT_EQ(node.part(), 60);
}

TEST(SplitLimits, KeepWaitingAfterAReload) {
  Node node(split("10/h window"));
  node.fleet.stands(0, 2);
  EXPECT_EQ(node.part(), 0);
  node.engine.replace(policies(split("20/h window")));
  EXPECT_EQ(node.part(), 0);
  node.clock.advance(hours{1});
  EXPECT_EQ(node.part(), 10);
}

TEST(SplitLimits, AreExplained) {
  Node node(split("10/s burst 20"));
  node.founds(0, 2);
  const LimitState state = node.engine.explain(kAsk)->at(0);
  EXPECT_EQ(state.limit, "10/s burst 20");
  EXPECT_EQ(state.share->part, 10);
  EXPECT_EQ(state.share->whole, 20);
  EXPECT_EQ(state.decision.limit, 10);
}

TEST(SplitLimits, ReportTheirFutureShare) {
  Node node(split("10/min window"));
  node.founds(0, 2);
  node.fleet.stands(0, 1);
  const SplitLimit limit = node.engine.split_limits().at(0);
  EXPECT_EQ(limit.policy, "p");
  EXPECT_EQ(limit.name, "0");
  EXPECT_EQ(limit.limit, "10/min window");
  EXPECT_EQ(limit.share.part, 5);
  EXPECT_EQ(limit.granted, 10);
  EXPECT_EQ(limit.grows_in, minutes{1});
}

}  // namespace
}  // namespace weir
