// Records of exact sliding windows and concurrency limits: growth, moves, lack of memory, eviction.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <vector>

#include "store.h"

namespace weir::store {
namespace {

constexpr std::size_t kUnit = Arena::kMinBlock;

// Room for the records of `units` new keys, in addition to the two reserves of a sixteenth each.
TableLayout with_records(std::size_t units) {
  std::size_t all = units;
  while (all - 2 * (all / 16) < units) ++all;
  return {.rows = 64, .overflow_rows = 1, .record_bytes = all * kUnit};
}

// Occupies `units` blocks of the smallest size until `at` + one hour.
void occupy(Table& table, int units, Nanos at = Nanos{0}) {
  const Rule filler{.limit = exact(1, hours{1}), .identity = 1000};
  for (int i = 0; i < units; ++i) ASSERT_TRUE(take(table, filler, nth(i), at));
}

TEST(Record, GrowsALogToItsMaximumLength) {
  Table table(with_records(1024));
  const Rule rule{.limit = exact(core::kMaxExact, hours{1})};
  for (int i = 0; i < core::kMaxExact; ++i) {
    ASSERT_EQ(take(table, rule, "alice", microseconds{i}).remaining, core::kMaxExact - 1 - i);
  }
  EXPECT_FALSE(take(table, rule, "alice", seconds{1}));
  EXPECT_FALSE(take(table, rule, "alice", hours{1} - Nanos{1}));
  EXPECT_TRUE(take(table, rule, "alice", hours{1}));
  EXPECT_FALSE(take(table, rule, "alice", hours{1}));
  EXPECT_EQ(table.use(kStart).record_used, std::size_t{128} << 10) << "64 KiB would not do";
}

TEST(Record, DoesNotGrowForEntriesThatHaveExpired) {
  Table table(with_records(64));
  const Rule rule{.limit = exact(20, seconds{1})};
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(take(table, rule, "alice", milliseconds{80 * i}));
  EXPECT_EQ(table.use(kStart).record_used, kUnit);
}

TEST(Record, DoesNotGrowForHoldersThatHaveLeft) {
  Table table(with_records(64));
  const Rule rule{.limit = concurrency(1000, seconds{1})};
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    ASSERT_TRUE(take(table, rule, "alice", milliseconds{200 * static_cast<int>(i)}, 1, i));
    if (i <= 3) continue;
    ASSERT_TRUE(leave(table, rule, "alice", milliseconds{200 * static_cast<int>(i)}, i));
  }
  EXPECT_EQ(table.use(kStart).record_used, kUnit);
}

// Many holders enter and leave in any order.
TEST(Record, HasRoomForManyHolders) {
  Table table(with_records(4096));
  const Rule rule{.limit = concurrency(5000, hours{1})};
  for (std::uint64_t i = 1; i <= 5000; ++i) ASSERT_TRUE(take(table, rule, "a", Nanos{0}, 1, i));
  EXPECT_FALSE(take(table, rule, "a", Nanos{0}, 1, 5001));
  EXPECT_TRUE(take(table, rule, "a", seconds{1}, 1, 2500)) << "a renewal";
  for (std::uint64_t i = 2; i <= 5000; i += 2) EXPECT_TRUE(leave(table, rule, "a", seconds{1}, i));
  EXPECT_EQ(peek(table, rule, "a", seconds{1}, 1, 9999).remaining, 2500);
  EXPECT_FALSE(leave(table, rule, "a", seconds{1}, 2));
}

// Logs that cannot grow may admit less, never more. Checked against all admissions of each key.
TEST(Record, NeverAdmitsMoreWhenMemoryIsFull) {
  constexpr Permits count = 40;
  constexpr Nanos period = seconds{1};
  constexpr int keys = 20;
  Table table(with_records(keys + 10));
  const Rule rule{.limit = exact(count, period), .when_full = WhenFull::deny};
  std::mt19937 random(1);
  std::map<int, std::deque<Nanos>> admitted;
  Nanos now{0};
  int total = 0;
  for (int i = 0; i < 30'000; ++i) {
    now += microseconds{random() % 3000};
    const int key = static_cast<int>(random() % keys);
    if (!take(table, rule, nth(key), now)) continue;
    ++total;
    std::deque<Nanos>& log = admitted[key];
    log.push_back(now);
    while (log.front() <= now - period) log.pop_front();
    ASSERT_LE(static_cast<Permits>(log.size()), count);
  }
  EXPECT_LE(table.use(kStart).record_used, (keys + 10) * kUnit);
  EXPECT_GT(total, 5000) << "or this test shows nothing";
}

// A peek gives the same answer.
TEST(Record, IsDeniedToNewKeysWhenMemoryIsFull) {
  Table table(with_records(16));
  occupy(table, 16);
  const Rule deny{.limit = exact(5, hours{1}), .identity = 1, .when_full = WhenFull::deny};
  const Rule allow{.limit = exact(5, hours{1}), .identity = 2, .when_full = WhenFull::allow};
  EXPECT_EQ(peek(table, deny, "bob", seconds{1}).outcome, Outcome::limited);
  EXPECT_EQ(table.use(kStart).denied, 0u);
  const core::Decision denied = take(table, deny, "bob", seconds{1});
  EXPECT_EQ(denied.outcome, Outcome::limited);
  EXPECT_GE(denied.retry_after, hours{1} - seconds{1});
  EXPECT_EQ(peek(table, deny, "bob", seconds{1}), denied);
  EXPECT_TRUE(peek(table, allow, "bob", seconds{1}));
  EXPECT_TRUE(take(table, allow, "bob", seconds{1}));
  EXPECT_EQ(table.use(kStart).denied, 1u);
  EXPECT_EQ(table.use(kStart).untracked, 1u);
  EXPECT_TRUE(peek(table, deny, "bob", seconds{1} + denied.retry_after));
  EXPECT_TRUE(take(table, deny, "bob", seconds{1} + denied.retry_after));
}

// New keys share one overflow record, for which memory is reserved. Once that is used up, they are
// refused.
TEST(Record, IsSharedByNewKeysWhenMemoryIsFull) {
  Table table(with_records(16));
  occupy(table, 16);
  const Rule log{.limit = exact(5, hours{1}), .identity = 1};
  const Rule concurrent{.limit = concurrency(3, hours{1}), .identity = 2};
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(peek(table, log, nth(50 + i), seconds{1}).remaining, 5 - i);
    EXPECT_EQ(take(table, log, nth(50 + i), seconds{1}).remaining, 4 - i);
  }
  EXPECT_FALSE(peek(table, log, "bob", seconds{1}));
  EXPECT_FALSE(take(table, log, "bob", seconds{1}));
  for (std::uint64_t i = 1; i <= 3; ++i) {
    EXPECT_TRUE(take(table, concurrent, nth(static_cast<int>(i)), seconds{1}, 1, i));
  }
  EXPECT_FALSE(take(table, concurrent, "bob", seconds{1}, 1, 4));
  EXPECT_TRUE(leave(table, concurrent, nth(2), seconds{1}, 2));
  EXPECT_TRUE(take(table, concurrent, "bob", seconds{1}, 1, 4));
  EXPECT_EQ(table.use(kStart).denied, 0u);
  const Rule third{.limit = exact(5, hours{1}), .identity = 3};
  EXPECT_FALSE(take(table, third, "bob", seconds{1})) << "to share takes a log, too";
  EXPECT_EQ(table.use(kStart).denied, 1u);
}

// Memory is reserved for the growth of records of known keys.
TEST(Record, GrowsDuringAFloodOfNewKeys) {
  Table table(with_records(64));
  const Rule rule{.limit = concurrency(14, hours{1})};
  ASSERT_TRUE(take(table, rule, "alice", Nanos{0}, 1, 1));
  occupy(table, 63);
  const Rule deny{.limit = exact(1, hours{1}), .identity = 1, .when_full = WhenFull::deny};
  ASSERT_FALSE(take(table, deny, "one more", Nanos{0}));
  for (std::uint64_t i = 2; i <= 14; ++i) {
    EXPECT_TRUE(take(table, rule, "alice", Nanos{0}, 1, i)) << i;
  }
}

// A record with seven holders cannot grow: the eighth holder is refused with any `when_full`,
// because its key is not new, and an admission would exceed the limit. The seven can renew.
TEST(Record, RefusesTheEighthHolderWhenItCannotGrow) {
  for (const WhenFull when_full : {WhenFull::deny, WhenFull::share, WhenFull::allow}) {
    Table table(with_records(16));
    occupy(table, 14);
    const Rule rule{.limit = concurrency(8, hours{1}), .when_full = when_full};
    for (std::uint64_t i = 1; i <= 7; ++i) {
      ASSERT_TRUE(take(table, rule, "alice", seconds{i}, 1, i));
    }
    ASSERT_TRUE(take(table, rule, "bob", Nanos{0}, 1, 1)) << "the last block";
    const core::Decision denied = take(table, rule, "alice", seconds{10}, 1, 8);
    EXPECT_FALSE(denied);
    EXPECT_GT(denied.retry_after, minutes{50});
    EXPECT_EQ(table.use(kStart).denied, 1u);
    EXPECT_EQ(table.use(kStart).shared + table.use(kStart).untracked, 0u);
    EXPECT_EQ(peek(table, rule, "alice", seconds{10}, 1, 9).remaining, 1);
    EXPECT_TRUE(take(table, rule, "alice", seconds{11}, 1, 1));
    EXPECT_TRUE(leave(table, rule, "alice", seconds{11}, 2));
    EXPECT_TRUE(take(table, rule, "alice", seconds{11}, 1, 8));
    EXPECT_FALSE(take(table, rule, "alice", seconds{11}, 1, 9));
  }
}

// The retry is at the time at which memory is free or the first holder expires.
TEST(Record, ReportsTheRetryOfARefusedHolder) {
  Table table(with_records(16));
  occupy(table, 15);
  const Rule rule{.limit = concurrency(8, minutes{1})};
  for (std::uint64_t i = 1; i <= 7; ++i) ASSERT_TRUE(take(table, rule, "alice", seconds{i}, 1, i));
  const Nanos retry = take(table, rule, "alice", seconds{10}, 1, 8).retry_after;
  EXPECT_GE(retry, seconds{51});
  EXPECT_LT(retry, seconds{52});
  EXPECT_TRUE(take(table, rule, "alice", seconds{10} + retry, 1, 8));
}

// The eighth holder passes uncounted.
TEST(Record, NeverRefusesAHolderOfAShadow) {
  Table table(with_records(16));
  occupy(table, 15);
  const Rule rule{.limit = concurrency(8, hours{1}), .when_full = WhenFull::deny};
  Item item = rule.item("alice");
  item.shadow = true;
  for (std::uint64_t i = 1; i <= 8; ++i) {
    EXPECT_TRUE(table.take({&item, 1}, kStart, {.low = i}).decision);
  }
  EXPECT_EQ(table.use(kStart).untracked, 1u);
  EXPECT_EQ(peek(table, rule, "alice", Nanos{0}, 1, 9).remaining, 1);
}

// For any number of blocks.
TEST(Record, IsReclaimedFromKeysAtRest) {
  Table table(with_records(16));
  const Rule rule{.limit = exact(14, seconds{1}), .when_full = WhenFull::deny};
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(take(table, rule, nth(i), milliseconds{100 * i})) << "newcomer " << i;
    ASSERT_LE(table.use(kStart).record_used, 16 * kUnit);
  }
  EXPECT_GE(table.use(kStart).forgotten, 1000u - 16);
}

// Small blocks of keys at rest are merged.
TEST(Record, IsReclaimedAsALargeBlock) {
  Table table(with_records(16));
  occupy(table, 16);
  const Rule rule{.limit = exact(200, hours{1}), .when_full = WhenFull::deny};
  for (int i = 0; i < 126; ++i) {
    ASSERT_TRUE(take(table, rule, "alice", hours{2} + microseconds{i})) << i;
  }
  EXPECT_EQ(peek(table, rule, "alice", hours{3} + microseconds{60}).remaining, 200 - 126 + 61)
      << "each entry is one of its own, which takes 2 KiB";
}

// A call checks only some records, so a record at rest among many live ones is found after a few
// calls.
TEST(Record, IsReclaimedFromAmongManyLiveOnes) {
  Table table(with_records(256));
  const Rule live{.limit = exact(1, hours{1}), .identity = 1};
  const Rule brief{.limit = exact(1, seconds{1}), .identity = 2};
  const Rule rule{.limit = exact(1, hours{1}), .identity = 3, .when_full = WhenFull::deny};
  for (int i = 0; i < 255; ++i) ASSERT_TRUE(take(table, live, nth(i), Nanos{0}));
  ASSERT_TRUE(take(table, brief, "carol", Nanos{0}));
  int calls = 1;
  while (!take(table, rule, "bob", seconds{2})) ASSERT_LE(++calls, 5);
}

// After any number of growths, resets, leaves and evictions, the memory in use is that of the live
// records.
TEST(Record, NeverLeaksMemory) {
  Table table(with_records(128));
  std::mt19937 random(7);
  const std::vector<Rule> rules{{.limit = exact(100, seconds{1}), .identity = 1},
                                {.limit = concurrency(100, seconds{1}), .identity = 2},
                                {.limit = exact(3, milliseconds{1}), .identity = 3},
                                {.limit = concurrency(30, seconds{1}), .identity = 1}};
  Nanos now{0};
  for (int i = 0; i < 50'000; ++i) {
    now += microseconds{random() % 200};
    const Rule& rule = rules[random() % rules.size()];
    const std::string name = nth(static_cast<int>(random() % 40));
    const std::uint64_t holder = random() % 100;
    const Item item = rule.item(name);
    if (random() % 50 == 0) {
      table.reset({&item, 1}, kStart + now);
    } else if (random() % 4 == 0) {
      (void)leave(table, rule, name, now, holder);
    } else {
      (void)take(table, rule, name, now, 1, holder);
    }
  }
  EXPECT_GT(table.use(kStart).record_used, 0u);
  for (const Rule& rule : rules) {
    for (int i = 0; i < 40; ++i) {
      const Item item = rule.item(nth(i));
      table.reset({&item, 1}, kStart + now);
      const Item shared = rule.item(item.overflow_key);
      table.reset({&shared, 1}, kStart + now);
    }
  }
  EXPECT_EQ(table.use(kStart).record_used, 0u);
  // The free memory is one block of the largest size.
  const Rule large{
      .limit = concurrency(1000, hours{1}), .identity = 9, .when_full = WhenFull::deny};
  int entered = 0;
  while (take(table, large, "alice", now, 1, static_cast<std::uint64_t>(++entered))) continue;
  EXPECT_EQ(entered, static_cast<int>((16384 - sizeof(Record)) / sizeof(core::Holder)) + 1)
      << "16 KiB, beside which the 8 KiB it grew out of are free again";
}

// The other limits still count.
TEST(Record, IsNotAvailableWithoutRecordMemory) {
  Table table({.rows = 8, .overflow_rows = 1, .record_bytes = 0});
  const Rule log{.limit = exact(5, hours{1}), .identity = 1, .when_full = WhenFull::deny};
  const Rule plain{.limit = bucket(1, hours{1}, 5), .identity = 2};
  EXPECT_FALSE(take(table, log, "alice", Nanos{0}));
  EXPECT_FALSE(peek(table, log, "alice", Nanos{0}));
  EXPECT_TRUE(take(table, plain, "alice", Nanos{0}));
}

}  // namespace
}  // namespace weir::store
