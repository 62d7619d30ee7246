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
    return receipts.add(std::move(receipt));
  }
  std::optional<Verdict> settle(std::string_view name, Permits delta) {
    Receipts::Borrowed borrowed;
    if (receipts.borrow(name, borrowed) != Receipts::BorrowResult::ok) return std::nullopt;
    return engine.settle({.policy = "p", .key = "k", .permits = delta}, borrowed->receipt);
  }

  ManualClock clock;
  Engine engine{PolicySet{}.add("p", per_hour(1000).burst(1000)), {.clock = &clock}};
  // Bytes of one receipt: `receipts` has room for three.
  std::size_t measure() {
    Receipts one;
    Receipt receipt;
    EXPECT_TRUE(engine.take({.policy = "p", .key = "measured"}, receipt));
    (void)one.add(std::move(receipt));
    return one.memory();
  }
  Receipts receipts{3 * measure()};
};

TEST_F(ReceiptsTest, GivesBackTheTakenPermitsOnce) {
  const std::string first = take(100);
  const std::string second = take(200);
  EXPECT_EQ(settle(first, -60)->decision.remaining, 760);
  EXPECT_EQ(settle(first, -60)->decision.remaining, 800);
  EXPECT_EQ(settle(first, -60)->decision.remaining, 800);
  EXPECT_EQ(settle(second, -200)->decision.remaining, 1000);
}

TEST_F(ReceiptsTest, NamesReceiptsAtRandom) {
  EXPECT_FALSE(settle("", -1));
  EXPECT_FALSE(settle("00000000000000000000000000000000", -1));
  std::set<std::string> names;
  for (int i = 0; i < 1000; ++i) names.insert(store::random_name());
  EXPECT_EQ(names.size(), 1000u);
  EXPECT_EQ(names.begin()->size(), 32u);
}

// The permits of an evicted receipt stay taken.
TEST_F(ReceiptsTest, EvictsTheOldestReceipt) {
  std::vector<std::string> names;
  for (int i = 0; i < 3; ++i) names.push_back(take(100));
  EXPECT_TRUE(settle(names[0], 0));
  names.push_back(take(100));
  EXPECT_FALSE(settle(names[0], -100));
  EXPECT_EQ(settle(names[1], -100)->decision.remaining, 700);
}

// A receipt is larger the more limits its policy has.
TEST_F(ReceiptsTest, BoundsItsMemoryForLargeReceiptsToo) {
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
    (void)bounded.add(std::move(receipt));
    EXPECT_LE(bounded.memory(), most);
  }
  EXPECT_GT(bounded.memory(), most / 2);
}

TEST_F(ReceiptsTest, LendsAReceiptToOneCallAtATime) {
  const std::string name = take(100);
  Receipts::Borrowed first;
  Receipts::Borrowed second;
  EXPECT_EQ(receipts.borrow(name, first), Receipts::BorrowResult::ok);
  EXPECT_EQ(receipts.borrow(name, second), Receipts::BorrowResult::busy);
  first = nullptr;
  EXPECT_EQ(receipts.borrow(name, second), Receipts::BorrowResult::ok);
}

// A settle in progress keeps its receipt, even if newer ones evict it.
TEST_F(ReceiptsTest, KeepsABorrowedReceiptAliveAfterItsEviction) {
  const std::string name = take(100);
  Receipts::Borrowed borrowed;
  ASSERT_EQ(receipts.borrow(name, borrowed), Receipts::BorrowResult::ok);
  for (int i = 0; i < 3; ++i) take(1);
  EXPECT_FALSE(settle(name, 0));
  EXPECT_TRUE(engine.settle({.policy = "p", .key = "k", .permits = -100}, borrowed->receipt));
}

TEST_F(ReceiptsTest, EvictsOnlyWhenItsMemoryIsFull) {
  Receipts many;
  const auto known = [&](std::string_view name) {
    Receipts::Borrowed borrowed;
    return many.borrow(name, borrowed) == Receipts::BorrowResult::ok;
  };
  const std::string first = many.add({});
  const std::size_t each = many.memory();
  const std::string second = many.add({});
  for (std::size_t i = 2; i < Receipts::kMaxBytes / each; ++i) many.add({});
  EXPECT_TRUE(known(first));
  const std::string last = many.add({});
  EXPECT_FALSE(known(first));
  EXPECT_TRUE(known(second));
  EXPECT_TRUE(known(last));
}

}  // namespace
}  // namespace weir::server
