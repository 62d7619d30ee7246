// Decisions over limits that the call brings along.
#include "engine/given.h"

#include <gtest/gtest.h>

#include "../../support/fake_fleet.h"
#include "engine/engine_access.h"
#include "world.h"

namespace weir {
namespace {

using engine::GivenAnswer;
using engine::GivenLimit;
using engine::GivenQuestion;
using engine::GivenReceipt;
using engine::Operation;

const core::Limit kFive = core::Window{.count = 5, .period = std::chrono::hours{1}};
const core::Limit kThree = core::Window{.count = 3, .period = std::chrono::hours{1}};

class AdHocLimits : public ::testing::TestWithParam<bool> {
 protected:
  AdHocLimits()
      : engine_(PolicySet{}, {.memory = {.bytes = std::size_t{1} << 20},
                              .clock = &clock_,
                              .fleet = GetParam() ? &fleet_ : nullptr}) {}

  GivenAnswer ask(const GivenQuestion& question) {
    GivenAnswer result;
    bool answered = false;
    detail::EngineAccess::ask(engine_, *link_, question, [&](GivenAnswer& answer) {
      result = answer;
      answered = true;
    });
    EXPECT_TRUE(answered);
    return result;
  }
  std::vector<GivenLimit> both(Permits cost) {
    return {{.limit = &kFive, .key = "weir1:{=a}:x", .identity = 1, .ask = {.cost = cost}},
            {.limit = &kThree, .key = "weir1:{=b}:x", .identity = 2, .ask = {.cost = cost}}};
  }

  ManualClock clock_;
  FakeFleet fleet_;
  std::unique_ptr<Link> link_ = fleet_.connect();
  Engine engine_;
};

INSTANTIATE_TEST_SUITE_P(OnNode, AdHocLimits, ::testing::Values(false));
INSTANTIATE_TEST_SUITE_P(OnFleet, AdHocLimits, ::testing::Values(true));

TEST_P(AdHocLimits, AreChargedAllOrNothing) {
  const auto two = both(2);
  const GivenAnswer first = ask({.limits = two});
  EXPECT_TRUE(first.verdict.decision);
  ASSERT_EQ(first.decisions.size(), 2u);
  EXPECT_EQ(first.decisions[0].remaining, 3);
  const GivenAnswer second = ask({.limits = two});
  EXPECT_FALSE(second.verdict.decision);
  EXPECT_EQ(second.verdict.refusing, 2u);
  EXPECT_EQ(second.decisions[0].remaining, 3);
  EXPECT_EQ(second.decisions[1].remaining, 1);
}

TEST_P(AdHocLimits, AreNotChargedByAPeek) {
  const auto two = both(2);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ask({.verb = Operation::peek, .limits = two}).decisions[0].remaining, 5);
  }
}

TEST_P(AdHocLimits, AreRefundedByReceiptOnce) {
  const auto two = both(2);
  std::vector<GivenReceipt> receipts = ask({.limits = two, .wants_receipts = true}).receipts;
  ASSERT_EQ(receipts.size(), 2u);
  const auto back = both(-2);
  for (int i = 0; i < 2; ++i) {  // the second refund has no effect
    const GivenAnswer undone =
        ask({.verb = Operation::settle, .limits = back, .receipts = receipts});
    EXPECT_EQ(undone.decisions[0].remaining, 5);
    EXPECT_EQ(undone.decisions[1].remaining, 3);
  }
}

TEST_P(AdHocLimits, GiveNoReceiptsForARefusedTake) {
  const auto many = both(4);
  EXPECT_TRUE(ask({.limits = many, .wants_receipts = true}).receipts.empty());
}

TEST(AdHocLimitsWithoutFleet, AreDecidedByTheNodeIfAllowed) {
  ManualClock clock;
  FakeFleet fleet;
  fleet.mode = FakeFleet::Mode::unavailable;
  const auto link = fleet.connect();
  Engine engine(PolicySet{},
                {.memory = {.bytes = std::size_t{1} << 20}, .clock = &clock, .fleet = &fleet});
  const std::vector<GivenLimit> one{{.limit = &kFive, .key = "k"}};
  for (const bool may_be_local : {true, false}) {
    detail::EngineAccess::ask(engine, *link, {.limits = one, .may_be_local = may_be_local},
                              [&](GivenAnswer& answer) {
                                EXPECT_TRUE(answer.degraded);
                                EXPECT_EQ(answer.trouble, "it is not there");
                                EXPECT_EQ(answer.decisions.empty(), !may_be_local);
                              });
  }
}

}  // namespace
}  // namespace weir
