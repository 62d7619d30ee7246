#include "server/receipts.h"
#include "store/random_name.h"

#include <gtest/gtest.h>

#include <set>

#include "weir/quota.h"

namespace weir::server {
namespace {

class ReceiptsTest : public testing::Test {
 protected:
  std::string take(Permits permits) {
    Receipt receipt;
    EXPECT_TRUE(engine.take({.policy = "p", .key = "k", .permits = permits}, receipt));
    return receipts.keep(std::move(receipt));
  }
  std::optional<Verdict> settle(std::string_view name, Permits delta) {
    Receipts::Borrowed borrowed;
    if (receipts.borrow(name, borrowed) != Receipts::Found::yes) return std::nullopt;
    return engine.settle({.policy = "p", .key = "k", .permits = delta}, borrowed->receipt);
  }

  ManualClock clock;
  Engine engine{PolicySet{}.add("p", per_hour(1000).burst(1000)), {.clock = &clock}};
  // How much one takes, so that there is memory for three.
  std::size_t measure() {
    Receipts one;
    Receipt receipt;
    EXPECT_TRUE(engine.take({.policy = "p", .key = "measured"}, receipt));
    (void)one.keep(std::move(receipt));
    return one.memory();
  }
  Receipts receipts{3 * measure()};
};

TEST_F(ReceiptsTest, GiveBackWhatWasTakenOnce) {
  const std::string first = take(100);
  const std::string second = take(200);
  EXPECT_EQ(settle(first, -60)->decision.remaining, 760);
  EXPECT_EQ(settle(first, -60)->decision.remaining, 800);
  EXPECT_EQ(settle(first, -60)->decision.remaining, 800);
  EXPECT_EQ(settle(second, -200)->decision.remaining, 1000);
}

TEST_F(ReceiptsTest, AreKnownByNamesThatNobodyGuesses) {
  EXPECT_FALSE(settle("", -1));
  EXPECT_FALSE(settle("00000000000000000000000000000000", -1));
  std::set<std::string> names;
  for (int i = 0; i < 1000; ++i) names.insert(store::random_name());
  EXPECT_EQ(names.size(), 1000u);
  EXPECT_EQ(names.begin()->size(), 32u);
}

// The oldest go first, and what they stood for stays taken.
TEST_F(ReceiptsTest, AreNotKeptWithoutEnd) {
  std::vector<std::string> names;
  for (int i = 0; i < 3; ++i) names.push_back(take(100));
  EXPECT_TRUE(settle(names[0], 0));
  names.push_back(take(100));
  EXPECT_FALSE(settle(names[0], -100));
  EXPECT_EQ(settle(names[1], -100)->decision.remaining, 700);
}

// However many limits a policy has, and so however large each of them is.
TEST_F(ReceiptsTest, TakeNoMoreMemoryThanTheyMay) {
  PolicySet policies;
  std::vector<Limit> limits;
  for (int i = 0; i < 16; ++i) limits.emplace_back(per_hour(1'000'000).burst(1'000'000));
  policies.add("sixteen", limits);
  Engine many{policies, {.clock = &clock}};
  constexpr std::size_t most = 100'000;
  Receipts bounded{most};
  for (int i = 0; i < 1'000; ++i) {
    Receipt receipt;
    ASSERT_TRUE(many.take({.policy = "sixteen", .key = "k"}, receipt));
    EXPECT_GT(receipt.memory(), 16 * sizeof(Receipt));
    (void)bounded.keep(std::move(receipt));
    EXPECT_LE(bounded.memory(), most);
  }
  EXPECT_GT(bounded.memory(), most / 2);
}

TEST_F(ReceiptsTest, AreSettledByOneAtATime) {
  const std::string name = take(100);
  Receipts::Borrowed first;
  Receipts::Borrowed second;
  EXPECT_EQ(receipts.borrow(name, first), Receipts::Found::yes);
  EXPECT_EQ(receipts.borrow(name, second), Receipts::Found::busy);
  first = nullptr;
  EXPECT_EQ(receipts.borrow(name, second), Receipts::Found::yes);
}

// Whoever settles has it as long as that takes, whatever becomes of the others.
TEST_F(ReceiptsTest, OutliveBeingForgottenWhileTheyAreSettled) {
  const std::string name = take(100);
  Receipts::Borrowed borrowed;
  ASSERT_EQ(receipts.borrow(name, borrowed), Receipts::Found::yes);
  for (int i = 0; i < 3; ++i) take(1);
  EXPECT_FALSE(settle(name, 0));
  EXPECT_TRUE(engine.settle({.policy = "p", .key = "k", .permits = -100}, borrowed->receipt));
}

TEST_F(ReceiptsTest, AreKeptUntilThereIsNoMemoryForMore) {
  Receipts many;
  const auto known = [&](std::string_view name) {
    Receipts::Borrowed borrowed;
    return many.borrow(name, borrowed) == Receipts::Found::yes;
  };
  const std::string first = many.keep({});
  const std::size_t each = many.memory();
  const std::string second = many.keep({});
  for (std::size_t i = 2; i < Receipts::kMostBytes / each; ++i) many.keep({});
  EXPECT_TRUE(known(first));
  const std::string last = many.keep({});
  EXPECT_FALSE(known(first));
  EXPECT_TRUE(known(second));
  EXPECT_TRUE(known(last));
}

}  // namespace
}  // namespace weir::server
