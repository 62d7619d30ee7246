// settle and receipts: a refund gives back what was taken, and no more.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <type_traits>
#include <utility>

#include "world.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

static_assert(!std::is_copy_constructible_v<Receipt> && !std::is_copy_assignable_v<Receipt>);
static_assert(std::is_nothrow_move_constructible_v<Receipt>);

std::string one(std::string_view limit) { return "p: { limits: [ " + std::string{limit} + " ] }"; }

struct Settling : World {
  using World::World;

  Receipt take_for(std::string_view policy, std::string_view key, Permits permits) {
    Receipt receipt;
    EXPECT_TRUE(engine.take({.policy = policy, .key = key, .permits = permits}, receipt));
    return receipt;
  }
  Permits settle(std::string_view policy, std::string_view key, Permits delta, Receipt& receipt) {
    const Verdict verdict =
        engine.settle({.policy = policy, .key = key, .permits = delta}, receipt);
    EXPECT_TRUE(verdict);
    return verdict.decision.remaining;
  }
};

// ---- Charging more

TEST(EngineSettle, ChargesMoreEvenIntoDebt) {
  Settling world{one("10/s")};
  Receipt receipt = world.take_for("p", "k", 8);
  EXPECT_EQ(world.settle("p", "k", 7, receipt), 0);
  EXPECT_EQ(world.take("p", "k").decision.retry_after, 600ms);  // five owed, and one for itself
  world.clock.advance(600ms);
  EXPECT_TRUE(world.take("p", "k"));
}

TEST(EngineSettle, ChargesMoreUnderEveryLimit) {
  for (const char* limit : kTens) {
    Settling world{one(limit)};
    Receipt receipt = world.take_for("p", "k", 3);
    EXPECT_EQ(world.settle("p", "k", 4, receipt), 3) << limit;
    EXPECT_EQ(world.settle("p", "k", 100, receipt), 0) << limit;
    EXPECT_EQ(world.admits("p", "k", 3), 0) << limit;
  }
}

TEST(EngineSettle, NeedsNoReceiptToChargeMore) {
  Settling world{one("10/s")};
  EXPECT_TRUE(world.engine.settle({.policy = "p", .key = "k", .permits = 4}));
  EXPECT_EQ(world.left("p", "k"), 6);
}

TEST(EngineSettle, DoesNothingForZeroPermits) {
  for (const char* limit : kTens) {
    Settling world{one(limit)};
    Receipt receipt = world.take_for("p", "k", 4);
    EXPECT_EQ(world.settle("p", "k", 0, receipt), 6) << limit;
    EXPECT_EQ(world.settle("p", "k", -4, receipt), 10) << limit;
  }
}

// ---- Refunds

TEST(EngineSettle, RefundsAllOrSome) {
  for (const char* limit : kTens) {
    Settling world{one(limit)};
    Receipt receipt = world.take_for("p", "k", 6);
    EXPECT_EQ(world.settle("p", "k", -2, receipt), 6) << limit;
    EXPECT_EQ(world.settle("p", "k", -4, receipt), 10) << limit;
  }
}

TEST(EngineSettle, RefundsNothingWithoutAReceipt) {
  for (const char* limit : kTens) {
    Settling world{one(limit)};
    EXPECT_TRUE(world.take("p", "k", 6));
    EXPECT_TRUE(world.engine.settle({.policy = "p", .key = "k", .permits = -6}));
    Receipt none;
    EXPECT_EQ(world.settle("p", "k", -6, none), 4) << limit;
  }
}

TEST(EngineSettle, NeverRefundsMoreThanWasTaken) {
  for (const char* limit : kTens) {
    Settling world{one(limit)};
    EXPECT_TRUE(world.take("p", "k", 4));
    Receipt receipt = world.take_for("p", "k", 3);
    EXPECT_EQ(world.settle("p", "k", -1000, receipt), 6) << limit;
  }
}

// In any number of portions.
TEST(EngineSettle, NeverRefundsTwice) {
  for (const char* limit : kTens) {
    Settling world{one(limit)};
    EXPECT_TRUE(world.take("p", "k", 4));
    Receipt receipt = world.take_for("p", "k", 5);
    for (int i = 0; i < 8; ++i) {
      EXPECT_LE(world.settle("p", "k", -2, receipt), 6) << limit;
    }
    EXPECT_EQ(world.left("p", "k"), 6) << limit;
  }
}

// 0.2 s refill two permits: of the four taken, those two have drained.
TEST(EngineSettle, RefundsOnlyWhatHasNotDrained) {
  Settling world{one("10/s")};
  Receipt receipt = world.take_for("p", "k", 4);
  EXPECT_TRUE(world.take("p", "k", 6));
  world.clock.advance(200ms);
  EXPECT_EQ(world.left("p", "k"), 2);
  EXPECT_EQ(world.settle("p", "k", -4, receipt), 4);
  EXPECT_EQ(world.settle("p", "k", -4, receipt), 4);
}

TEST(EngineSettle, RefundsNothingAfterTheWindow) {
  for (const char* limit : {"10/s", "10/s window", "10/s window from first", "10/s sliding",
                            "10/s sliding exact", "10/s queue 9 nodelay"}) {
    Settling world{one(limit)};
    Receipt receipt = world.take_for("p", "k", 6);
    world.clock.advance(2s);
    EXPECT_TRUE(world.take("p", "k", 7));
    EXPECT_EQ(world.settle("p", "k", -6, receipt), 3) << limit;
  }
  Settling day{one("10/day")};
  Receipt receipt = day.take_for("p", "k", 6);
  day.clock.advance(24h);
  EXPECT_TRUE(day.take("p", "k", 7));
  EXPECT_EQ(day.settle("p", "k", -6, receipt), 3);
}

// A fixed cost of one call, and a cost in tokens: unused tokens are refunded, the call is not.
TEST(EngineSettle, KeepsFixedCosts) {
  Settling world{
      "llm: { limits: [ { limit: 60/min, cost: 1 }, { limit: 1000/min }, "
      "{ limit: 500/h, cost: 5 } ] }"};
  Receipt receipt = world.take_for("llm", "alice", 400);
  EXPECT_THAT(world.all_left("llm", "alice"), ElementsAre(59, 600, 495));
  world.settle("llm", "alice", -150, receipt);
  EXPECT_THAT(world.all_left("llm", "alice"), ElementsAre(59, 750, 495));
  world.settle("llm", "alice", 50, receipt);
  EXPECT_THAT(world.all_left("llm", "alice"), ElementsAre(59, 700, 495));
}

TEST(EngineSettle, RefundsEveryChargedLimit) {
  Settling world{
      "p: { limits: [ 10/s, 20/h window, 30/h sliding exact, "
      "{ limit: 3/h, shadow: true }, { limit: 40/h, shadow: true } ] }"};
  EXPECT_TRUE(world.take("p", "k", 1));
  Receipt receipt = world.take_for("p", "k", 4);  // the small shadow limit would refuse it
  EXPECT_THAT(world.all_left("p", "k"), ElementsAre(5, 15, 25, 2, 35));
  world.settle("p", "k", -3, receipt);
  EXPECT_THAT(world.all_left("p", "k"), ElementsAre(8, 18, 28, 2, 38));
}

// ---- Invalid receipts

// After a reset, permits of the key were taken by others.
TEST(EngineReceipt, RefundsNothingAfterAReset) {
  for (const char* limit : kTens) {
    Settling world{one(limit)};
    Receipt receipt = world.take_for("p", "k", 6);
    ASSERT_FALSE(world.engine.reset({.policy = "p", .key = "k"}));
    EXPECT_TRUE(world.take("p", "k", 6));
    EXPECT_EQ(world.settle("p", "k", -6, receipt), 4) << limit;
  }
}

TEST(EngineReceipt, RefundsNothingToAnotherKey) {
  for (const char* limit : kTens) {
    Settling world{one(limit)};
    Receipt receipt = world.take_for("p", "alice", 6);
    EXPECT_TRUE(world.take("p", "bob", 6));
    EXPECT_EQ(world.settle("p", "bob", -6, receipt), 4) << limit;
    // It still refunds its own key.
    EXPECT_EQ(world.settle("p", "alice", -6, receipt), 10) << limit;
  }
}

TEST(EngineReceipt, RefundsNothingToAnotherPolicy) {
  for (const char* limit : kTens) {
    const std::string limits = "{ limits: [ " + std::string{limit} + " ] }";
    Settling world{"p: " + limits + ", q: " + limits};
    Receipt receipt = world.take_for("p", "k", 6);
    EXPECT_TRUE(world.take("q", "k", 6));
    EXPECT_EQ(world.settle("q", "k", -6, receipt), 4) << limit;
    EXPECT_EQ(world.settle("p", "k", -6, receipt), 10) << limit;
  }
}

TEST(EngineReceipt, RefundsNothingInAnotherEngine) {
  for (const char* limit : kTens) {
    Settling world{one(limit)};
    Settling other{one(limit)};
    Receipt receipt = world.take_for("p", "k", 6);
    EXPECT_TRUE(other.take("p", "k", 6));
    EXPECT_EQ(other.settle("p", "k", -6, receipt), 4) << limit;
    EXPECT_EQ(world.settle("p", "k", -6, receipt), 10) << limit;
  }
}

// Limits that count by parts refund the receipt's parts only.
TEST(EngineReceipt, RefundsTheMatchingParts) {
  Settling world{"p: { limits: [ { by: user, limit: 10/h }, { by: sku, limit: 10/h } ] }"};
  const auto about = [](std::string_view user, std::string_view sku, Permits permits) {
    return Request{.policy = "p", .parts = {{"user", user}, {"sku", sku}}, .permits = permits};
  };
  Receipt receipt;
  EXPECT_TRUE(world.engine.take(about("alice", "9", 6), receipt));
  EXPECT_TRUE(world.engine.take(about("bob", "8", 6)));
  EXPECT_TRUE(world.engine.settle(about("alice", "8", -6), receipt));
  EXPECT_THAT(world.all_left(about("alice", "8", 1)), ElementsAre(10, 4));
  EXPECT_TRUE(world.engine.settle(about("bob", "9", -6), receipt));
  EXPECT_THAT(world.all_left(about("bob", "9", 1)), ElementsAre(4, 10));
}

TEST(EngineReceipt, MovesWithoutBeingDoubled) {
  Settling world{one("10/h window")};
  Receipt first = world.take_for("p", "k", 4);
  Receipt second = std::move(first);
  EXPECT_EQ(world.settle("p", "k", -4, first), 6);  // NOLINT: that is what is tested
  first = std::move(second);
  EXPECT_EQ(world.settle("p", "k", -4, second), 6);  // NOLINT
  EXPECT_EQ(world.settle("p", "k", -4, first), 10);
}

TEST(EngineReceipt, MayBeDroppedOrOutliveItsEngine) {
  Receipt receipt;
  {
    Settling world{one("10/h")};
    EXPECT_TRUE(world.engine.take({.policy = "p", .key = "k"}, receipt));
    EXPECT_TRUE(world.engine.take({.policy = "p", .key = "k"}, receipt));  // replaces the first
    EXPECT_EQ(world.settle("p", "k", -10, receipt), 9);
  }
  Settling world{one("10/h")};
  EXPECT_TRUE(world.take("p", "k"));
  EXPECT_EQ(world.settle("p", "k", -1, receipt), 9);
}

// A refusal has no receipt, and keeps the earlier one valid.
TEST(EngineReceipt, IsNotChangedByARefusal) {
  Settling world{one("10/h")};
  Receipt receipt = world.take_for("p", "k", 4);
  EXPECT_FALSE(world.engine.take({.policy = "p", .key = "k", .permits = 7}, receipt));
  EXPECT_FALSE(world.engine.take({.policy = "q", .key = "k"}, receipt));
  EXPECT_EQ(world.settle("p", "k", -10, receipt), 10);

  Receipt refused;
  EXPECT_TRUE(world.take("p", "k", 4));
  EXPECT_FALSE(world.engine.take({.policy = "p", .key = "k", .permits = 7}, refused));
  EXPECT_EQ(world.settle("p", "k", -7, refused), 6);
}

// ---- Receipts and other policies

TEST(EngineReceipt, FollowsItsLimitThroughChanges) {
  Settling world{"p: { limits: [ 10/h window, 20/min ] }"};
  Receipt receipt = world.take_for("p", "k", 6);
  world.engine.replace(policies("p: { limits: [ 5/s, 20/min, 12/h window ] }"));
  EXPECT_THAT(world.all_left("p", "k"), ElementsAre(5, 14, 6));
  world.settle("p", "k", -4, receipt);
  EXPECT_THAT(world.all_left("p", "k"), ElementsAre(5, 18, 10));
}

// A take at another price can be undone as a whole, but not in part.
TEST(EngineReceipt, UndoesATakeAtAnotherRateAsAWhole) {
  for (const char* changed : {"20/min", "5/min burst 10"}) {
    Settling world{one("{ limit: 10/min, name: a }")};
    Receipt receipt = world.take_for("p", "k", 6);
    world.engine.replace(policies(one("{ limit: " + std::string{changed} + ", name: a }")));
    const Permits before = world.left("p", "k");
    EXPECT_EQ(world.settle("p", "k", -2, receipt), before);
    EXPECT_EQ(world.settle("p", "k", -6, receipt), before + 6);
  }
}

TEST(EngineReceipt, RefundsNothingToALimitThatLostItsUsage) {
  Settling world{one("10/h window")};
  Receipt receipt = world.take_for("p", "k", 6);
  world.engine.replace(policies(one("10/min window")));
  EXPECT_TRUE(world.take("p", "k", 6));
  EXPECT_EQ(world.settle("p", "k", -6, receipt), 4);
}

// ---- Holders, resets, overflow keys

TEST(EngineSettle, DoesNotAffectHolders) {
  Settling world{"p: { limits: [ 10/h, 2 concurrent ] }"};
  EXPECT_TRUE(world.engine.enter({.policy = "p", .key = "k"}, "a"));
  EXPECT_TRUE(world.engine.settle({.policy = "p", .key = "k", .permits = 3}));
  EXPECT_THAT(world.all_left("p", "k"), ElementsAre(6, 1));
  EXPECT_TRUE(world.engine.settle({.policy = "p", .key = "k", .permits = -3}));
  EXPECT_THAT(world.all_left("p", "k"), ElementsAre(6, 1));
}

TEST(EngineReset, RemovesOneKeyUnderAllLimits) {
  for (const char* limit : kTens) {
    World world{"p: { limits: [ 10/h, " + std::string{limit} + " ] }, q: { limits: [ 10/h ] }"};
    EXPECT_TRUE(world.take("p", "alice", 6));
    EXPECT_TRUE(world.take("p", "bob", 6));
    EXPECT_TRUE(world.take("q", "alice", 6));
    EXPECT_FALSE(world.engine.reset({.policy = "p", .key = "alice"}));
    EXPECT_THAT(world.all_left("p", "alice"), ElementsAre(10, 10)) << limit;
    EXPECT_THAT(world.all_left("p", "bob"), ElementsAre(4, 4)) << limit;
    EXPECT_EQ(world.left("q", "alice"), 4);
    EXPECT_EQ(world.take("p", "alice", 10).decision.remaining, 0) << limit;
  }
}

TEST(EngineReset, AcceptsAnUnknownKey) {
  World world{one("10/h")};
  EXPECT_FALSE(world.engine.reset({.policy = "p", .key = "k"}));
  EXPECT_EQ(world.engine.memory().live, 0u);
}

// A new key in a full table uses the overflow state. Permits taken there are not refunded to its
// own state.
TEST(EngineSettle, RefundsNothingToAKeyThatWasAnOverflowKey) {
  for (const char* when_full : {"share", "allow"}) {
    for (const char* limit : {"10/min", "10/min window", "10/min sliding exact"}) {
      ManualClock clock;
      EngineOptions options = small_on(clock);
      options.memory = {.bytes = 4096 + 4 * 512 + 4096, .record_bytes = 4096};
      const std::string text = "p: { when_full: " + std::string{when_full} + ", limits: [ " +
                               limit + " ] }, brief: { limits: [ 1/s ] }";
      Engine engine(policies(text), options);
      for (int i = 0; i < 400; ++i) {
        (void)engine.take({.policy = "brief", .key = std::to_string(i)});
      }
      Receipt receipt;
      ASSERT_TRUE(engine.take({.policy = "p", .key = "k", .permits = 10}, receipt));
      const MemoryUse use = engine.memory();
      ASSERT_GT(use.shared + use.untracked, 0u);
      clock.advance(1100ms);
      // Its own state starts with the usage of the overflow state.
      const bool shared = std::string_view{when_full} == "share";
      EXPECT_EQ(static_cast<bool>(engine.take({.policy = "p", .key = "k", .permits = 10})), !shared)
          << limit;
      EXPECT_TRUE(engine.settle({.policy = "p", .key = "k", .permits = -10}, receipt));
      EXPECT_FALSE(engine.take({.policy = "p", .key = "k"})) << limit << ", " << when_full;
    }
  }
}

// A reset invalidates the receipts of one key, and of few others that share its reset counter.
TEST(EngineSettle, RefundsOtherKeysThanTheResetOne) {
  OnePolicy world("10/h window");
  constexpr int keys = 500;
  std::vector<Receipt> receipts(keys);
  const auto key = [](int i) { return "k" + std::to_string(i); };
  for (int i = 0; i < keys; ++i) {
    ASSERT_TRUE(world.engine.take({.policy = "p", .key = key(i), .permits = 4}, receipts[i]));
  }
  EXPECT_FALSE(world.engine.reset({.policy = "p", .key = "another"}));
  int given_back = 0;
  for (int i = 0; i < keys; ++i) {
    (void)world.engine.settle({.policy = "p", .key = key(i), .permits = -4}, receipts[i]);
    given_back += world.left(key(i)) == 10 ? 1 : 0;
  }
  EXPECT_GE(given_back, keys - 10);
}

}  // namespace
}  // namespace weir
