#include "core/holders.h"

#include <gtest/gtest.h>

#include "at.h"

namespace weir::core {
namespace {

struct Room {
  Room(Permits count, Nanos lease)
      : limit(*Concurrency::make(count, lease)), entries(static_cast<std::size_t>(count)) {}

  Holders holders() { return {size, entries}; }
  Evaluation ask(Nanos at, std::uint64_t who, Permits cost = 1) {
    return decide(limit, holders(), {.low = who}, kStart + at, cost);
  }
  bool enter_as(Nanos at, std::uint64_t who, Permits cost = 1) {
    if (ask(at, who, cost).outcome != Outcome::allowed) return false;
    enter(limit, holders(), {.low = who}, kStart + at, cost);
    return true;
  }
  bool leave_as(Nanos at, std::uint64_t who) { return leave(holders(), {.low = who}, kStart + at); }
  Permits left(Nanos at) { return remaining(limit, holders(), kStart + at); }

  Concurrency limit;
  std::uint32_t size = 0;
  std::vector<Holder> entries;
};

TEST(Concurrency, AdmitsNoMoreThanItsCountAtATime) {
  Room room(2, seconds{30});
  EXPECT_TRUE(room.enter_as(Nanos{0}, 1));
  EXPECT_TRUE(room.enter_as(seconds{1}, 2));
  EXPECT_FALSE(room.enter_as(seconds{2}, 3));
  EXPECT_EQ(room.ask(seconds{2}, 3).retry_after, seconds{28});
  EXPECT_TRUE(room.leave_as(seconds{3}, 2));
  EXPECT_FALSE(room.leave_as(seconds{3}, 2));
  EXPECT_TRUE(room.enter_as(seconds{3}, 3));
}

// The permit of a holder that crashed is free again when its hold time [t, t + hold_time) is over.
TEST(Concurrency, ReleasesPermitsWhenTheirHoldTimeExpires) {
  Room room(1, seconds{30});
  EXPECT_TRUE(room.enter_as(Nanos{0}, 1));
  EXPECT_FALSE(room.enter_as(seconds{30} - Nanos{1}, 2));
  EXPECT_TRUE(room.enter_as(seconds{30}, 2));
  EXPECT_FALSE(room.leave_as(seconds{30}, 1));
}

TEST(Concurrency, RenewsTheHoldTimeOfAHolderThatEntersAgain) {
  Room room(1, seconds{30});
  EXPECT_TRUE(room.enter_as(Nanos{0}, 1));
  EXPECT_TRUE(room.enter_as(seconds{20}, 1));
  EXPECT_EQ(room.left(seconds{20}), 0);
  EXPECT_FALSE(room.enter_as(seconds{49}, 2));
  EXPECT_TRUE(room.enter_as(seconds{50}, 2));
}

// A renewal takes nothing, so its cost is ignored.
TEST(Concurrency, KeepsThePermitsOfAHolderThatRenews) {
  Room room(5, seconds{30});
  EXPECT_TRUE(room.enter_as(Nanos{0}, 1, 3));
  EXPECT_TRUE(room.enter_as(seconds{1}, 1, 100));
  EXPECT_EQ(room.left(seconds{1}), 2);
}

TEST(Concurrency, DoesNotShortenAHoldTimeWhenTheClockStepsBack) {
  Room room(1, seconds{30});
  EXPECT_TRUE(room.enter_as(seconds{10}, 1));
  EXPECT_TRUE(room.enter_as(seconds{5}, 1));
  EXPECT_FALSE(room.enter_as(seconds{39}, 2));
  EXPECT_TRUE(room.enter_as(seconds{40}, 2));
}

TEST(Concurrency, ReportsTheRetryAfterEnoughHoldersHaveExpired) {
  Room room(4, seconds{30});
  EXPECT_TRUE(room.enter_as(Nanos{0}, 1));
  EXPECT_TRUE(room.enter_as(seconds{1}, 2, 2));
  EXPECT_EQ(room.ask(seconds{2}, 3, 2).retry_after, seconds{28});
  EXPECT_EQ(room.ask(seconds{2}, 3, 3).retry_after, seconds{29});
  EXPECT_EQ(room.ask(seconds{2}, 3, 5).outcome, Outcome::impossible);
  EXPECT_EQ(room.ask(seconds{2}, 3, -1).outcome, Outcome::impossible);
}

// Holders stay ordered by expiry, even if the limit's hold time was shortened in between.
TEST(Concurrency, FindsTheFirstHolderToExpireAfterAChange) {
  Room room(2, seconds{30});
  EXPECT_TRUE(room.enter_as(Nanos{0}, 1));
  room.limit = *Concurrency::make(2, seconds{5});
  EXPECT_TRUE(room.enter_as(seconds{1}, 2));
  EXPECT_EQ(room.ask(seconds{1}, 3).retry_after, seconds{5});
  EXPECT_EQ(rest_at(room.holders()), kStart + seconds{30});
}

TEST(Concurrency, RejectsInvalidNumbers) {
  EXPECT_EQ(Concurrency::make(0, seconds{1}).error(), Flaw::capacity_too_small);
  EXPECT_EQ(Concurrency::make(kMaxConcurrent + 1, seconds{1}).error(), Flaw::capacity_too_large);
  EXPECT_EQ(Concurrency::make(1, Nanos{0}).error(), Flaw::period_not_positive);
  EXPECT_EQ(Concurrency::make(1, kLongestDebt + Nanos{1}).error(), Flaw::period_too_long);
}

}  // namespace
}  // namespace weir::core
