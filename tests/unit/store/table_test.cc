// The decisions of a table with free slots.

#include "store/memory/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "store.h"

namespace weir::store {
namespace {

constexpr TableLayout kRoomy{.rows = 64, .overflow_rows = 1, .record_bytes = 64 << 10};

Rule rule(core::Limit limit) { return {.limit = std::move(limit)}; }

// Each algorithm decides in the table as it does alone.
TEST(Table, CountsUnderEveryAlgorithm) {
  Table table(kRoomy);
  for (const Rule& rule : one_of_each()) {
    for (std::uint64_t i = 1; i <= 5; ++i) {
      EXPECT_TRUE(take(table, rule, "alice", Nanos{0}, 1, i));
    }
    EXPECT_FALSE(take(table, rule, "alice", Nanos{0}, 1, 6)) << "limit " << rule.identity;
    EXPECT_EQ(peek(table, rule, "alice", Nanos{0}, 1, 6).remaining, 0) << rule.identity;
    EXPECT_EQ(peek(table, rule, "bob", Nanos{0}, 1, 6).remaining, 5) << rule.identity;
  }
}

// The same key has two states under two limits.
TEST(Table, KeepsLimitsApart) {
  Table table(kRoomy);
  const Rule one{.limit = bucket(1, hours{1}, 1), .identity = 1};
  const Rule other{.limit = bucket(1, hours{1}, 1), .identity = 2};
  EXPECT_TRUE(take(table, one, "alice", Nanos{0}));
  EXPECT_TRUE(take(table, other, "alice", Nanos{0}));
  EXPECT_FALSE(take(table, one, "alice", Nanos{0}));
}

// A plan of several keys is charged as a whole or not at all.
TEST(Table, ChargesAllKeysOrNone) {
  Table table(kRoomy);
  const Rule wide{.limit = bucket(1, hours{1}, 10), .identity = 1};
  const Rule narrow{.limit = window(2, hours{1}), .identity = 2};
  const Rule exactly{.limit = exact(5, hours{1}), .identity = 3};
  const std::vector<Item> plan{wide.item("a"), narrow.item("a"), exactly.item("a")};
  int admitted = 0;
  for (int i = 0; i < 5; ++i) admitted += table.take(plan, kStart).decision ? 1 : 0;
  EXPECT_EQ(admitted, 2);
  EXPECT_EQ(peek(table, wide, "a", Nanos{0}).remaining, 8);
  EXPECT_EQ(peek(table, exactly, "a", Nanos{0}).remaining, 3);
}

// The maximum number of keys in a plan, in any order.
TEST(Table, SupportsPlansOfSixteenKeys) {
  Table table(kRoomy);
  std::vector<Rule> rules;
  for (std::uint64_t i = 0; i < core::kMaxLimits; ++i) {
    rules.push_back(
        {.limit = i % 2 == 0 ? bucket(1, hours{1}, 3) : exact(3, hours{1}), .identity = i + 1});
  }
  std::vector<Item> plan;
  for (const Rule& rule : rules) plan.push_back(rule.item("alice"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(table.take(plan, kStart).decision.remaining, 2 - i);
    std::rotate(plan.begin(), plan.begin() + 5, plan.end());
  }
  EXPECT_EQ(table.take(plan, kStart).refusing, 0xffffu);
}

TEST(Table, DoesNotInsertKeysOnPeekAndLeave) {
  Table table(kRoomy);
  const Rule log = rule(exact(5, hours{1}));
  const Rule seats = rule(concurrency(5, hours{1}));
  EXPECT_TRUE(peek(table, log, "alice", Nanos{0}));
  EXPECT_FALSE(leave(table, seats, "alice", Nanos{0}, 1));
  EXPECT_EQ(table.use(kStart).live, 0u);
  EXPECT_EQ(table.use(kStart).record_used, 0u);
}

// The caller may pass the receipt of an earlier call, for a single limit or a plan.
TEST(Table, DoesNotChangeTheReceiptWhenItRefuses) {
  Table table(kRoomy);
  const Rule one = rule(bucket(1, hours{1}, 1));
  const Item item = one.item("alice");
  core::Receipt receipt;
  ASSERT_TRUE(table.take({&item, 1}, kStart, {}, {&receipt, 1}).decision);
  EXPECT_FALSE(table.take({&item, 1}, kStart, {}, {&receipt, 1}).decision);
  EXPECT_EQ(receipt.taken, 1);
  const Item back = one.item("alice", -1);
  (void)table.settle({&back, 1}, kStart, {&receipt, 1});
  EXPECT_TRUE(table.take({&item, 1}, kStart).decision);
}

TEST(Table, DecidesTheSameOnTheFastPathOfBuckets) {
  Table table(kRoomy);
  const Rule one = rule(bucket(1, hours{1}, 3));
  const Item item = one.item("alice");
  const auto& limit = std::get<core::Bucket>(one.limit);
  core::Receipt receipt;
  EXPECT_EQ(table.take_bucket(limit, item, kStart).remaining, 2);
  EXPECT_EQ(table.take_bucket(limit, item, kStart, &receipt).remaining, 1);
  const Item back = one.item("alice", -1);
  EXPECT_EQ(table.settle({&back, 1}, kStart, {&receipt, 1}).decision.remaining, 2);
  EXPECT_EQ(take(table, one, "alice", Nanos{0}, 2).remaining, 0);
  EXPECT_FALSE(table.take_bucket(limit, item, kStart));
}

// The record is freed as well.
TEST(Table, ResetsAKeyToNeverSeen) {
  for (const Rule& rule : one_of_each()) {
    Table table(kRoomy);
    for (std::uint64_t i = 1; i <= 5; ++i) (void)take(table, rule, "alice", Nanos{0}, 1, i);
    const Item item = rule.item("alice");
    table.reset({&item, 1}, kStart);
    EXPECT_EQ(peek(table, rule, "alice", Nanos{0}).remaining, 5) << rule.identity;
    EXPECT_EQ(table.use(kStart).record_used, 0u);
    EXPECT_TRUE(take(table, rule, "alice", Nanos{0}, 1, 7));
    EXPECT_EQ(peek(table, rule, "alice", Nanos{0}, 1, 8).remaining, 4) << rule.identity;
  }
}

// A full log drops expired entries only when a call is charged: a thread whose clock is slightly
// behind must not find a gap that a refused call has left.
TEST(Table, KeepsTheWholeLogWhenACallIsRefused) {
  Table table(kRoomy);
  const Rule log{.limit = exact(14, seconds{1}), .identity = 1};
  const Rule none{.limit = bucket(1, hours{1}, 1), .identity = 2};
  ASSERT_TRUE(take(table, none, "alice", Nanos{0}));
  for (int i = 0; i < 14; ++i) ASSERT_TRUE(take(table, log, "alice", milliseconds{i}));
  const std::vector<Item> plan{log.item("alice"), none.item("alice")};
  EXPECT_FALSE(table.take(plan, kStart + milliseconds{1005}).decision);
  EXPECT_FALSE(take(table, log, "alice", milliseconds{999})) << "all 14 count until 1.000";
}

TEST(Table, KeepsAllHoldersWhenACallIsRefused) {
  Table table(kRoomy);
  const Rule seats{.limit = concurrency(20, seconds{1}), .identity = 1};
  const Rule none{.limit = bucket(1, hours{1}, 1), .identity = 2};
  ASSERT_TRUE(take(table, none, "alice", Nanos{0}));
  for (int i = 0; i < 7; ++i) {
    ASSERT_TRUE(take(table, seats, "alice", milliseconds{i}, 1, static_cast<std::uint64_t>(i + 1)));
  }
  const std::vector<Item> plan{seats.item("alice"), none.item("alice")};
  EXPECT_FALSE(table.take(plan, kStart + milliseconds{1005}, {.low = 99}).decision);
  EXPECT_EQ(peek(table, seats, "alice", milliseconds{999}).remaining, 13);
}

// A limit that keeps its name but changes its algorithm must not interpret log entries as holders,
// which are larger.
TEST(Table, StartsWithAnEmptyRecordWhenALimitChangesItsAlgorithm) {
  Table table(kRoomy);
  const Rule log{.limit = exact(14, hours{1})};
  const Rule seats{.limit = concurrency(14, hours{1})};
  const Rule neighbours{.limit = exact(14, hours{1}), .identity = 2};
  for (int i = 0; i < 14; ++i) ASSERT_TRUE(take(table, log, "alice", milliseconds{i}));
  for (int key = 0; key < 8; ++key) {
    for (int i = 0; i < 14; ++i) ASSERT_TRUE(take(table, neighbours, nth(key), milliseconds{i}));
  }
  EXPECT_EQ(peek(table, seats, "alice", seconds{1}).remaining, 14);
  EXPECT_FALSE(leave(table, seats, "alice", seconds{1}, 3));
  for (std::uint64_t i = 1; i <= 14; ++i) {
    ASSERT_TRUE(take(table, seats, "alice", seconds{1}, 1, i));
  }
  EXPECT_FALSE(take(table, seats, "alice", seconds{1}, 1, 15));
  for (int key = 0; key < 8; ++key) {
    EXPECT_EQ(peek(table, neighbours, nth(key), seconds{1}).remaining, 0);
  }
  // The limit changes back.
  EXPECT_EQ(peek(table, log, "alice", seconds{2}).remaining, 14);
  EXPECT_TRUE(take(table, log, "alice", seconds{2}));
  EXPECT_EQ(peek(table, log, "alice", seconds{2}).remaining, 13);
  const Item item = log.item("alice");
  const Item as_seats = seats.item("alice");
  table.reset({&as_seats, 1}, kStart + seconds{2});
  EXPECT_EQ(peek(table, log, "alice", seconds{2}).remaining, 14);
  table.reset({&item, 1}, kStart + seconds{2});
  EXPECT_EQ(table.use(kStart + seconds{2}).record_used, 8u * Arena::kMinBlock);
}

// A key that is at rest by one thread's clock is evicted. For another thread, whose clock is
// behind, it is not at rest yet. That thread must not start the key anew in the past: its decision
// is made at the time of the eviction.
TEST(Table, ForgivesNoUsageWhenClocksDiffer) {
  constexpr Nanos at_rest = hours{48};
  const Rule passing{.limit = bucket(1, hours{1}, 1), .identity = 99};
  for (const Rule& rule : one_of_each()) {
    // nginx ignores a clock that jumps back, and a hold time from the past expires in the past.
    if (std::holds_alternative<core::NginxQueue>(rule.limit)) continue;
    if (std::holds_alternative<core::Concurrency>(rule.limit)) continue;
    // Searches for two other keys with the preferred cache line of "alice", which has room for one.
    std::optional<Table> made;
    for (int other = 0; !made || made->use(kStart).forgotten == 0; other += 2) {
      ASSERT_LT(other, 2000);
      made.emplace(TableLayout{.rows = 1, .overflow_rows = 1, .record_bytes = 16 << 10});
      for (std::uint64_t i = 1; i <= 5; ++i) {
        ASSERT_TRUE(take(*made, rule, "alice", Nanos{0}, 1, i));
      }
      (void)take(*made, passing, nth(other), at_rest);
      (void)take(*made, passing, nth(other + 1), at_rest);
    }
    Table& table = *made;
    int granted = 0;
    for (std::uint64_t i = 11; i <= 20; ++i) {
      const Nanos at = i <= 15 ? milliseconds{1} : at_rest;
      if (take(table, rule, "alice", at, 1, i)) ++granted;
    }
    EXPECT_EQ(granted, 5) << "limit " << rule.identity;
  }
}

// No usage is forgiven at the ends of the range.
TEST(Table, AcceptsAnyInstant) {
  constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
  constexpr auto highest = std::numeric_limits<std::int64_t>::max();
  for (const Rule& rule : one_of_each()) {
    for (const std::int64_t at : {lowest, std::int64_t{-1}, std::int64_t{0}, std::int64_t{1},
                                  ns(kLatest) - 1, ns(kLatest), highest - 1, highest}) {
      // The state of a smooth limiter is an instant, which cannot be later than the latest one.
      const bool owes_time = std::holds_alternative<core::Smooth>(rule.limit);
      if (owes_time && instant(at) >= kLatest) continue;
      Table table(kRoomy);
      const Item item = rule.item("alice");
      int admitted = 0;
      for (std::uint64_t i = 1; i <= 50; ++i) {
        admitted += table.take({&item, 1}, instant(at), {.low = i}).decision ? 1 : 0;
      }
      EXPECT_EQ(admitted, 5) << "limit " << rule.identity << " at " << at;
    }
  }
}

// At the latest instant no key comes to rest any more, so none is evicted.
TEST(Table, EvictsNoLiveKeyAtTheLatestInstant) {
  Table table({.rows = 2, .overflow_rows = 1});
  const Rule one = rule(bucket(1, hours{1}, 1));
  ASSERT_TRUE(take(table, one, "alice", kLatest - kStart));
  for (int i = 0; i < 1000; ++i) (void)take(table, one, nth(i), kLatest - kStart);
  EXPECT_FALSE(take(table, one, "alice", kLatest - kStart));
}

TEST(Table, EvictsNoKeyWithDebtBeyondTheLatestInstant) {
  Table table({.rows = 2, .overflow_rows = 1});
  const Rule one = rule(bucket(1, core::kLongestDebt, 1));
  const Nanos late = kLatest - kStart - hours{1};
  ASSERT_TRUE(take(table, one, "alice", late));
  for (int i = 0; i < 1000; ++i) (void)take(table, one, nth(i), kLatest - kStart);
  EXPECT_FALSE(take(table, one, "alice", kLatest - kStart));
}

}  // namespace
}  // namespace weir::store
