#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <random>
#include <thread>

#include "../../support/fake_fleet.h"
#include "core/limit.h"
#include "store/lease/lease_cache.h"
#include "weir/async_engine.h"
#include "world.h"

namespace weir {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Mode = FakeFleet::Mode;

constexpr Request kAsk{.policy = "p", .key = "k"};

std::string leased(std::string_view limit, std::string_view more = {}) {
  return only("{ limit: " + std::string(limit) + ", scope: leased }", more);
}

// A node with its own clock and one link.
struct Node {
  Node(FakeFleet& fleet, std::string_view text, Instant start = ManualClock::kStart)
      : clock(start),
        engine(policies(text),
               {.memory = {.bytes = std::size_t{1} << 20}, .clock = &clock, .fleet = &fleet}),
        link(fleet.connect()) {}

  AsyncEngine async() { return {engine, *link}; }

  Verdict take(const Request& request = kAsk) {
    std::optional<Verdict> verdict_seen;
    async().take(request, [&](const Verdict& verdict) { verdict_seen = verdict; });
    return verdict_seen.value();
  }
  int admits(int n, const Request& request = kAsk) {
    int admitted = 0;
    for (int i = 0; i < n; ++i) admitted += take(request) ? 1 : 0;
    return admitted;
  }
  Permits held() const { return static_cast<Permits>(engine.leases().held); }

  ManualClock clock;
  Engine engine;
  std::unique_ptr<Link> link;
};

// Several nodes of a fleet; time passes for all of them.
struct Nodes {
  explicit Nodes(std::size_t count, std::string_view text) {
    fleet.node_count = static_cast<std::uint32_t>(count);
    for (std::size_t i = 0; i < count; ++i) {
      // All their clocks differ.
      nodes.push_back(std::make_unique<Node>(fleet, text, ManualClock::kStart + hours{i}));
    }
  }

  Node& operator[](std::size_t i) { return *nodes[i]; }
  void pass(Nanos time) {
    fleet.clock.advance(time);
    for (const auto& node : nodes) node->clock.advance(time);
  }
  void run_links() {
    for (const auto& node : nodes) {
      if (node->link) node->link->run_ready();
    }
  }
  // Long enough for unused permits to be returned.
  void wait_until_returned() {
    for (int i = 0; i < 3; ++i) {
      pass(milliseconds{100});
      run_links();
    }
  }

  FakeFleet fleet;
  std::vector<std::unique_ptr<Node>> nodes;
};

// ---- Sharing

TEST(LeasedLimits, AreSharedByNodesToTheLastPermit) {
  Nodes nodes(2, leased("100/h burst 100"));
  int admitted = 0;
  for (int i = 0; i < 150; ++i) admitted += nodes[0].admits(1) + nodes[1].admits(1);
  EXPECT_EQ(admitted, 100);
}

TEST(LeasedLimits, AreLeasedInBatches) {
  Nodes nodes(2, leased("100000/s burst 100000"));
  int admitted = 0;
  for (int ms = 0; ms < 1000; ++ms) {
    admitted += nodes[0].admits(10);
    nodes.pass(milliseconds{1});
    if (ms % 100 == 0) nodes.run_links();
  }
  EXPECT_EQ(admitted, 10'000);
  EXPECT_LT(nodes.fleet.borrowed.size(), 100u);
}

TEST(LeasedLimits, LeaseNothingAheadForRareCallers) {
  Nodes nodes(1, leased("100/s burst 100"));
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(nodes[0].take());
    EXPECT_EQ(nodes[0].held(), 0);
    nodes.pass(seconds{1});
  }
  EXPECT_EQ(nodes.fleet.borrowed.size(), 10u);
}

TEST(LeasedLimits, ReportWhenToRetry) {
  Nodes nodes(1, leased("10/s burst 10"));
  EXPECT_EQ(nodes[0].admits(99), 10);
  const Verdict refused = nodes[0].take();
  EXPECT_EQ(refused.decision.limit, 10);
  EXPECT_EQ(refused.decision.remaining, 0);
  EXPECT_EQ(refused.limited_by, "0");
  EXPECT_EQ(refused.decision.retry_after, milliseconds{100});
  EXPECT_EQ(refused.refusing, 1u);
  nodes.pass(refused.decision.retry_after);
  EXPECT_TRUE(nodes[0].take());
  EXPECT_FALSE(nodes[0].take());
}

TEST(LeasedLimits, DoNotAskTheStoreAgainAtOnceAfterARefusal) {
  Nodes nodes(1, leased("10/s burst 10"));
  EXPECT_EQ(nodes[0].admits(999), 10);
  EXPECT_LT(nodes.fleet.borrowed.size(), 20u);
}

TEST(LeasedLimits, RefuseImpossibleCallsWithoutTheStore) {
  Nodes nodes(1, leased("10/s burst 10"));
  const Verdict verdict = nodes[0].take({.policy = "p", .key = "k", .permits = 11});
  EXPECT_EQ(verdict.decision.outcome, Outcome::impossible);
  EXPECT_THAT(nodes.fleet.borrowed, testing::IsEmpty());
}

TEST(LeasedLimits, ServeLargeCallsBesideSmallOnes) {
  Nodes nodes(1, leased("100/h burst 100"));
  EXPECT_TRUE(nodes[0].take({.policy = "p", .key = "k", .permits = 60}));
  EXPECT_FALSE(nodes[0].take({.policy = "p", .key = "k", .permits = 60}));
  EXPECT_EQ(nodes[0].admits(99), 40);
}

// ---- Bursts

// The number of admitted calls of a burst on each node.
int burst(Nodes& nodes, int calls) {
  int admitted = 0;
  for (int i = 0; i < calls; ++i) {
    for (const auto& node : nodes.nodes) admitted += node->admits(1);
  }
  return admitted;
}

// The same with the maintenance of the nodes.
void stay_silent(Nodes& nodes, Nanos time) {
  for (Nanos passed{0}; passed < time; passed += milliseconds{100}) {
    nodes.pass(milliseconds{100});
    nodes.run_links();
  }
}

// Concurrent calls that wait for one answer.
int burst_at_once(Nodes& nodes, int calls) {
  int admitted = 0;
  nodes.fleet.mode = Mode::waits;
  for (int i = 0; i < calls; ++i) {
    for (const auto& node : nodes.nodes) {
      node->async().take(kAsk, [&](const Verdict& verdict) { admitted += verdict ? 1 : 0; });
    }
  }
  while (nodes.fleet.waiting() > 0) nodes.fleet.deliver();
  nodes.fleet.mode = Mode::answers;
  return admitted;
}

TEST(LeasedBuckets, RefillAsFastAsOnOneNode) {
  for (const int tenths : {10, 12, 18, 22, 25, 30}) {
    Nodes nodes(1, leased("100/s burst 100"));
    ASSERT_EQ(burst_at_once(nodes, 150), 100);
    nodes.pass(milliseconds{100 * tenths});  // the link does not run in between
    // Ages by the node's clock are reduced a little.
    EXPECT_GE(burst_at_once(nodes, 150), 99) << tenths;
  }
}

TEST(LeasedBuckets, RefillForOtherNodes) {
  for (const int tenths : {12, 18, 22, 25, 30}) {
    Nodes nodes(2, leased("100/s burst 100"));
    nodes.fleet.mode = Mode::waits;
    int first = 0;
    for (int i = 0; i < 150; ++i) {
      nodes[0].async().take(kAsk, [&](const Verdict& verdict) { first += verdict ? 1 : 0; });
    }
    while (nodes.fleet.waiting() > 0) nodes.fleet.deliver();
    nodes.fleet.mode = Mode::answers;
    ASSERT_EQ(first, 100);
    stay_silent(nodes, milliseconds{100 * tenths});
    EXPECT_EQ(nodes[1].admits(150), 100) << tenths;
  }
}

TEST(LeasedBuckets, AdmitRepeatedBursts) {
  for (const std::size_t count : {1u, 2u, 4u}) {
    for (const auto& one_burst : {burst, burst_at_once}) {
      Nodes nodes(count, leased("100/s burst 100"));
      int admitted = 0;
      for (int i = 0; i < 20; ++i) {
        const int now = one_burst(nodes, 200);
        EXPECT_LE(now, 100);
        admitted += now;
        stay_silent(nodes, milliseconds{2500});
      }
      EXPECT_GE(admitted, 1940) << count << " nodes";
      RecordProperty("admitted by " + std::to_string(count), admitted);
    }
  }
}

// One question for each call without a lease, and one after a burst.
TEST(LeasedBuckets, AreReportedSpentOnceAfterABurst) {
  Nodes nodes(1, leased("100/s burst 100"));
  burst_at_once(nodes, 100);
  const std::size_t asked = nodes.fleet.borrowed.size();
  stay_silent(nodes, seconds{5});
  EXPECT_EQ(nodes.fleet.borrowed.size(), asked + 1);
  EXPECT_EQ(nodes[0].engine.leases().keys, 0u);
}

TEST(LeasedBuckets, AreNotReportedSpentByRareCallers) {
  Nodes nodes(1, leased("100/s burst 100"));
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(nodes[0].take());
    stay_silent(nodes, seconds{1});
  }
  EXPECT_EQ(nodes.fleet.borrowed.size(), 10u);
}

// They refill by less than one permit in the term of a lease.
TEST(LeasedBuckets, AreNotReportedSpentIfTheyFillSlowly) {
  Nodes nodes(1, leased("100/h burst 100"));
  burst_at_once(nodes, 100);
  const std::size_t asked = nodes.fleet.borrowed.size();
  stay_silent(nodes, seconds{5});
  EXPECT_EQ(nodes.fleet.borrowed.size(), asked);
}

// ---- Unused permits

// Spends at a high rate, so that more is leased than needed.
void run_hot(Nodes& nodes, std::size_t node) {
  for (int ms = 0; ms < 200; ++ms) {
    (void)nodes[node].admits(20);
    nodes.pass(milliseconds{1});
  }
}

TEST(LeasedLimits, ReturnUnusedPermits) {
  Nodes nodes(2, leased("1000/h burst 100000"));
  run_hot(nodes, 0);
  EXPECT_GT(nodes[0].held(), 0);
  nodes.wait_until_returned();
  EXPECT_EQ(nodes[0].held(), 0);
  EXPECT_EQ(nodes[1].admits(200'000), 100'000 - 4000);
}

TEST(LeasedLimits, AreReturnedWhenALinkEnds) {
  Nodes nodes(2, leased("1000/h burst 100000"));
  run_hot(nodes, 0);
  EXPECT_GT(nodes[0].held(), 0);
  nodes[0].async().return_leases();
  EXPECT_EQ(nodes[0].held(), 0);
  EXPECT_EQ(nodes[1].admits(200'000), 100'000 - 4000);
}

TEST(LeasedLimits, AreReturnedWhenALinkEndsWithARequestInFlight) {
  Nodes nodes(2, leased("1000/h burst 100000"));
  run_hot(nodes, 0);
  nodes.fleet.mode = Mode::waits;
  int admitted = 0;
  while (nodes.fleet.waiting() == 0) admitted += nodes[0].admits(1);
  ASSERT_GT(nodes[0].held(), 0);
  nodes[0].async().return_leases();
  nodes.fleet.mode = Mode::answers;
  EXPECT_EQ(nodes[0].held(), 0);
  EXPECT_EQ(nodes[1].admits(200'000), 100'000 - 4000 - admitted);
}

TEST(LeasedLimits, PayDebitsBeforeALinkEnds) {
  Nodes nodes(2, leased("100/h burst 100"));
  nodes[0].async().settle({.policy = "p", .key = "k", .permits = 60}, [](const Verdict&) {});
  nodes[0].async().return_leases();
  EXPECT_EQ(nodes[1].admits(200), 40);
}

TEST(LeasedLimits, LoseTheLeasesOfANodeThatDied) {
  Nodes nodes(2, leased("1000/h burst 100000"));
  run_hot(nodes, 0);
  const Permits held = nodes[0].held();
  ASSERT_GT(held, 0);
  nodes[0].link.reset();
  EXPECT_EQ(nodes[1].admits(200'000), 100'000 - 4000 - held);
}

TEST(LeasedLimits, AreNotSpentAfterTheirTerm) {
  Nodes nodes(1, leased("100000/h burst 100000"));
  run_hot(nodes, 0);
  ASSERT_GT(nodes[0].held(), 0);
  nodes.fleet.mode = Mode::unavailable;
  EXPECT_FALSE(nodes[0].take().degraded);
  nodes.pass(store::lease::kTerm);
  EXPECT_TRUE(nodes[0].take().degraded);
  EXPECT_EQ(nodes[0].held(), 0);
}

// ---- Windows

TEST(LeasedWindows, AreSharedToTheLastPermitAndExpireAtTheirEnd) {
  Nodes nodes(2, leased("1000/min window"));
  int first = 0;
  for (int ms = 0; ms < 200; ++ms) {
    first += nodes[0].admits(2);
    nodes.pass(milliseconds{1});
  }
  EXPECT_EQ(first, 400);
  nodes.pass(std::chrono::minutes{1} - milliseconds{200});
  int second = 0;
  for (int i = 0; i < 2000; ++i) second += nodes[0].admits(1) + nodes[1].admits(1);
  EXPECT_EQ(second, 1000);
}

TEST(LeasedCalendarWindows, AreSharedToTheLastPermit) {
  Nodes nodes(3, leased("1000/day"));
  int admitted = 0;
  for (int i = 0; i < 2000; ++i) {
    admitted += nodes[static_cast<std::size_t>(i) % 3].admits(1);
    nodes.pass(milliseconds{1});
  }
  for (int i = 0; i < 3; ++i) admitted += nodes[static_cast<std::size_t>(i)].admits(1000);
  EXPECT_EQ(admitted, 1000);
  nodes.pass(hours{24});
  EXPECT_TRUE(nodes[0].take());
}

// ---- With other limits

constexpr std::string_view kSale =
    "p: { limits: [ { by: user, limit: 1/h, scope: node }, "
    "{ by: sku, limit: 10/h burst 10, scope: leased } ] }";

Request buy(std::string_view user, std::string_view sku = "42") {
  return {.policy = "p", .parts = {{"user", user}, {"sku", sku}}};
}

TEST(LeasedLimits, AreNotChargedWhenANodeLimitRefuses) {
  Nodes nodes(1, kSale);
  EXPECT_TRUE(nodes[0].take(buy("ann")));
  EXPECT_FALSE(nodes[0].take(buy("ann")));
  EXPECT_EQ(nodes.fleet.borrowed.size(), 1u);
  EXPECT_EQ(all_left(nodes[0].engine, buy("ann")), (std::vector<Permits>{0, 9}));
}

TEST(LeasedLimits, ChargeNoNodeLimitWhenTheyRefuse) {
  Nodes nodes(1, kSale);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(nodes[0].take(buy("user " + std::to_string(i))));
  const Verdict refused = nodes[0].take(buy("ann"));
  EXPECT_FALSE(refused);
  EXPECT_EQ(refused.limited_by, "1");
  EXPECT_TRUE(nodes[0].take(buy("ann", "another")));
}

TEST(LeasedLimits, AreRefundedWhenTheFleetRefuses) {
  Nodes nodes(1,
              "p: { limits: [ { by: user, limit: 1/h, scope: fleet }, "
              "{ by: sku, limit: 10/h burst 10, scope: leased } ] }");
  EXPECT_TRUE(nodes[0].take(buy("ann")));
  EXPECT_FALSE(nodes[0].take(buy("ann")));
  EXPECT_EQ(nodes[0].held(), 1);
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(nodes[0].take(buy("user " + std::to_string(i))));
  EXPECT_FALSE(nodes[0].take(buy("bob")));
}

TEST(LeasedLimits, NeverRefuseByAShadow) {
  Nodes nodes(1, only("{ limit: 10/h burst 10, scope: leased, shadow: true }"));
  EXPECT_EQ(nodes[0].admits(20), 20);
  EXPECT_EQ(nodes[0].take().refusing, 1u);
}

TEST(LeasedLimits, RefuseACallAfterSeveralLostRaces) {
  Nodes nodes(1, leased("10/h burst 10"));
  nodes.fleet.mode = Mode::waits;
  int admitted = 0;
  int refused = 0;
  for (int i = 0; i < 20; ++i) {
    nodes[0].async().take(kAsk, [&](const Verdict& verdict) {
      ++(verdict ? admitted : refused);
      // An admitted caller calls again at once.
      if (verdict)
        nodes[0].async().take(kAsk, [&](const Verdict& v) { ++(v ? admitted : refused); });
    });
  }
  while (nodes.fleet.waiting() > 0) nodes.fleet.deliver();
  EXPECT_EQ(admitted, 10);
  EXPECT_GE(refused, 10);
}

// The store leases nothing, so a call must not be admitted, even if another thread refunds the
// node's limit during the decision.
TEST(LeasedLimits, AreAlwaysPaidDespiteConcurrentRefundsOnTheNode) {
  Nodes nodes(1, std::string(kSale.substr(0, kSale.size() - 1)) + ", on_store_failure: closed }");
  // The other thread leased all it needs before: the fake fleet is not thread-safe.
  const std::unique_ptr<Link> link = nodes.fleet.connect();
  const auto take_and_give_back = [&] {
    AsyncEngine async(nodes[0].engine, *link);
    async.take(buy("ann"), [&](const Verdict& verdict, Receipt receipt) {
      Request back = buy("ann");
      back.permits = -1;
      if (verdict) async.settle(back, receipt, [](const Verdict&) {});
    });
  };
  take_and_give_back();
  nodes.fleet.mode = Mode::unavailable;
  std::atomic<bool> begins{false};
  std::atomic<bool> ends{false};
  std::thread other([&] {
    for (begins = true; !ends;) take_and_give_back();
  });
  while (!begins) std::this_thread::yield();
  int admitted = 0;
  for (int i = 0; i < 200'000 && admitted == 0; ++i) {
    admitted = nodes[0].admits(1, buy("ann", "another"));
    nodes.fleet.borrowed.clear();
  }
  ends = true;
  other.join();
  EXPECT_EQ(admitted, 0);
}

// ---- Timeouts

constexpr std::string_view kLeasedAndFleet =
    "p: { limits: [ { limit: 1000/h burst 1000, scope: fleet }, "
    "{ limit: 10/h burst 10, scope: leased } ], on_store_failure: closed }";

TEST(LeasedLimits, LeaveTheFleetTheRestOfTheTimeout) {
  Nodes nodes(1, kLeasedAndFleet);
  nodes.fleet.mode = Mode::waits;
  std::optional<Verdict> verdict_seen;
  nodes[0].async().take(kAsk, [&](const Verdict& verdict) { verdict_seen = verdict; });
  nodes.pass(milliseconds{30});
  nodes.fleet.deliver();
  ASSERT_EQ(nodes.fleet.within.size(), 1u);
  EXPECT_EQ(nodes.fleet.within.back(), milliseconds{20});
  nodes.fleet.deliver();
  ASSERT_TRUE(verdict_seen);
  EXPECT_TRUE(*verdict_seen);
  EXPECT_FALSE(verdict_seen->degraded);
}

TEST(LeasedLimits, DoNotAskTheFleetAfterTheTimeout) {
  Nodes nodes(1, kLeasedAndFleet);
  nodes.fleet.mode = Mode::waits;
  std::optional<Verdict> verdict_seen;
  nodes[0].async().take(kAsk, [&](const Verdict& verdict) { verdict_seen = verdict; });
  nodes.pass(milliseconds{50});
  nodes.fleet.deliver();
  EXPECT_EQ(nodes.fleet.within.size(), 0u);
  ASSERT_TRUE(verdict_seen);
  EXPECT_FALSE(*verdict_seen);
  EXPECT_TRUE(verdict_seen->degraded);
  EXPECT_EQ(nodes[0].held(), 1);  // not admitted and not charged
}

// The first answer covers one of the two calls. The other asks again; its earlier wait counts.
TEST(LeasedLimits, BoundAllWaitsOfACallByOneTimeout) {
  Nodes nodes(1, leased("10/h burst 10", "on_store_failure: closed"));
  nodes.fleet.mode = Mode::waits;
  int verdict_seen = 0;
  std::optional<Verdict> second;
  nodes[0].async().take(kAsk, [](const Verdict& verdict) { EXPECT_TRUE(verdict); });
  nodes[0].async().take(kAsk, [&](const Verdict& verdict) {
    second = verdict;
    ++verdict_seen;
  });
  nodes.pass(milliseconds{30});
  nodes.fleet.deliver();
  ASSERT_EQ(nodes.fleet.waiting(), 1u);
  nodes.pass(milliseconds{19});
  nodes.run_links();
  EXPECT_FALSE(second);
  nodes.pass(milliseconds{1});
  nodes.run_links();
  ASSERT_TRUE(second);
  EXPECT_TRUE(second->degraded);
  // The late answer serves the next call.
  nodes.fleet.deliver();
  EXPECT_EQ(verdict_seen, 1);
  EXPECT_GE(nodes[0].held(), 1);
  EXPECT_TRUE(nodes[0].take());
}

// ---- Changed limits

TEST(LeasedLimits, ApplyALoweredLimitToHeldLeases) {
  Nodes nodes(1, leased("100000/s burst 100000"));
  nodes.run_links();
  run_hot(nodes, 0);
  const Permits held = nodes[0].held();
  nodes[0].engine.replace(policies(leased("100/s burst 100")));
  int admitted = 0;
  for (int ms = 0; ms < 1000; ++ms) {
    admitted += nodes[0].admits(20);
    nodes.pass(milliseconds{1});
    if (ms % 100 == 0) nodes.run_links();
  }
  EXPECT_LE(admitted, held + 100 + 100);
}

// ---- Outages

TEST(LeasedLimits, FollowTheFailureModeDuringAnOutage) {
  for (const auto& [mode, admitted] :
       {std::pair{"open", 20}, std::pair{"closed", 0}, std::pair{"local", 5}}) {
    Nodes nodes(2, leased("10/h burst 10", std::string("on_store_failure: ") + mode));
    nodes.fleet.mode = Mode::unavailable;
    EXPECT_EQ(nodes[0].admits(20), admitted) << mode;
    EXPECT_TRUE(nodes[0].take().degraded);
  }
}

TEST(LeasedLimits, LoseNoPermitsWithLostAnswers) {
  Nodes nodes(1, leased("100/h burst 100", "on_store_failure: closed"));
  nodes.fleet.mode = Mode::loses;
  EXPECT_EQ(nodes[0].admits(5), 0);
  nodes.fleet.mode = Mode::answers;
  EXPECT_EQ(nodes[0].admits(200), 100);
}

TEST(LeasedLimits, ContinueAfterTheStoreLostItsData) {
  Nodes nodes(1, leased("100000/h burst 100000"));
  run_hot(nodes, 0);
  const Permits held = nodes[0].held();
  ASSERT_GT(held, 0);
  nodes.fleet.ledgers.clear();
  // Spent permits are forgotten. The next question reports the held permits, so that they are not
  // granted twice.
  const int admitted = nodes[0].admits(300'000);
  EXPECT_GE(admitted, 100'000);
  EXPECT_LT(admitted, 100'000 + held);
}

// ---- Other operations

TEST(LeasedLimits, CanBeSettled) {
  Nodes nodes(1, leased("100/h burst 100"));
  Receipt receipt;
  nodes[0].async().take({.policy = "p", .key = "k", .permits = 50},
                        [&](const Verdict&, Receipt given) { receipt = std::move(given); });
  const auto settle = [&](Permits by) {
    nodes[0].async().settle({.policy = "p", .key = "k", .permits = by}, receipt,
                            [](const Verdict&) {});
  };
  settle(-20);
  EXPECT_EQ(nodes[0].held(), 20);
  settle(-99);  // only 30 more were taken
  EXPECT_EQ(nodes[0].held(), 50);
  settle(60);
  EXPECT_EQ(nodes[0].held(), 0);
  EXPECT_EQ(nodes[0].admits(99), 40);
}

TEST(LeasedLimits, CanBePeekedAndResetInTheFleet) {
  Nodes nodes(2, leased("100/h burst 100"));
  EXPECT_EQ(nodes[0].admits(200), 100);
  EXPECT_EQ(nodes[1].engine.peek(kAsk).decision.remaining, 0);
  EXPECT_FALSE(nodes[1].engine.reset(kAsk));
  EXPECT_GT(nodes[1].admits(200), 0);
}

// ---- Random schedules

// Checks each admission against one bucket for all nodes: then every interval admits at most the
// burst and the refill.
class BucketModel {
 public:
  explicit BucketModel(const core::Bucket& limit) : limit_(limit) {}
  bool allows(Instant now, Permits cost) {
    const core::StepResult taken = core::take(limit_, state_, now, {.cost = cost});
    state_ = taken.next;
    return static_cast<bool>(taken.decision);
  }

 private:
  core::Bucket limit_;
  core::State state_{};
};

TEST(LeasedLimits, NeverAdmitMoreThanOneBucketWould) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](unsigned n) { return random() % n; };
    const Permits burst = 1 + below(300);
    Nodes nodes(4, leased("1000/s burst " + std::to_string(burst), "on_store_failure: closed"));
    BucketModel model(*core::Bucket::make({.count = 1000}, burst));
    for (int step = 0; step < 3000; ++step) {
      Node& node = nodes[below(4)];
      if (node.link == nullptr) node.link = nodes.fleet.connect();
      const Permits cost = 1 + below(below(10) == 0 ? 20 : 2);
      for (unsigned n = below(20); n > 0; --n) {
        if (!node.take({.policy = "p", .key = "k", .permits = cost})) continue;
        ASSERT_TRUE(model.allows(nodes.fleet.clock.now(), cost)) << "seed " << seed;
      }
      switch (below(60)) {
        case 0:
          node.link.reset();  // the node dies
          break;
        case 1:
          node.async().return_leases();
          break;
        case 2:
          nodes.fleet.mode = below(2) == 0 ? Mode::loses : Mode::unavailable;
          break;
        case 3:
        case 4:
          nodes.fleet.mode = Mode::answers;
          break;
        case 5:
          nodes.pass(milliseconds{below(3000)});
          break;
        default:
          nodes.pass(Nanos{below(3'000'000)});
          break;
      }
      if (below(20) == 0) nodes.run_links();
    }
  }
}

// A question under the old limit would let spent permits drain at the old price.
TEST(LeasedLimits, AreNotReportedUnderAChangedLimit) {
  FakeFleet fleet;
  Node node(fleet, leased("1000/s"));
  EXPECT_TRUE(node.take({.policy = "p", .key = "k", .permits = 1000}));
  const std::size_t asked = fleet.borrowed.size();
  node.engine.replace(policies(leased("10/s")));
  for (int i = 0; i < 5; ++i) {
    node.clock.advance(milliseconds{100});
    fleet.clock.advance(milliseconds{100});
    node.link->run_ready();
  }
  EXPECT_EQ(fleet.borrowed.size(), asked);
  EXPECT_FALSE(node.take());
}

}  // namespace
}  // namespace weir
