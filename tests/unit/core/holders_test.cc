#include "core/holders.h"

#include <gtest/gtest.h>

#include "at.h"

namespace weir::core {
namespace {

struct Room {
  Room(Permits count, Nanos lease)
      : limit(*Concurrency::make(count, lease)), seats(static_cast<std::size_t>(count)) {}

  Holders holders() { return {size, seats}; }
  Choice ask(Nanos at, std::uint64_t who, Permits cost = 1) {
    return decide(limit, holders(), {.low = who}, kStart + at, cost);
  }
  bool come(Nanos at, std::uint64_t who, Permits cost = 1) {
    if (ask(at, who, cost).outcome != Outcome::allowed) return false;
    enter(limit, holders(), {.low = who}, kStart + at, cost);
    return true;
  }
  bool go(Nanos at, std::uint64_t who) { return leave(holders(), {.low = who}, kStart + at); }
  Permits left(Nanos at) { return remaining(limit, holders(), kStart + at); }

  Concurrency limit;
  std::uint32_t size = 0;
  std::vector<Holder> seats;
};

TEST(Concurrency, AdmitsNoMoreThanItsCountAtATime) {
  Room room(2, seconds{30});
  EXPECT_TRUE(room.come(Nanos{0}, 1));
  EXPECT_TRUE(room.come(seconds{1}, 2));
  EXPECT_FALSE(room.come(seconds{2}, 3));
  EXPECT_EQ(room.ask(seconds{2}, 3).retry_after, seconds{28});
  EXPECT_TRUE(room.go(seconds{3}, 2));
  EXPECT_FALSE(room.go(seconds{3}, 2));
  EXPECT_TRUE(room.come(seconds{3}, 3));
}

// Whoever crashed gives its permit back when its lease [t, t + lease) is over.
TEST(Concurrency, TakesBackThePermitsOfWhoNeverLeft) {
  Room room(1, seconds{30});
  EXPECT_TRUE(room.come(Nanos{0}, 1));
  EXPECT_FALSE(room.come(seconds{30} - Nanos{1}, 2));
  EXPECT_TRUE(room.come(seconds{30}, 2));
  EXPECT_FALSE(room.go(seconds{30}, 1));
}

TEST(Concurrency, RenewsTheLeaseOfWhoIsInside) {
  Room room(1, seconds{30});
  EXPECT_TRUE(room.come(Nanos{0}, 1));
  EXPECT_TRUE(room.come(seconds{20}, 1));
  EXPECT_EQ(room.left(seconds{20}), 0);
  EXPECT_FALSE(room.come(seconds{49}, 2));
  EXPECT_TRUE(room.come(seconds{50}, 2));
}

// A renewal asks for nothing, so what it names as cost does not matter.
TEST(Concurrency, KeepsThePermitsOfAHolderThatRenews) {
  Room room(5, seconds{30});
  EXPECT_TRUE(room.come(Nanos{0}, 1, 3));
  EXPECT_TRUE(room.come(seconds{1}, 1, 100));
  EXPECT_EQ(room.left(seconds{1}), 2);
}

// A clock that steps back must not shorten a lease.
TEST(Concurrency, NeverShortensALease) {
  Room room(1, seconds{30});
  EXPECT_TRUE(room.come(seconds{10}, 1));
  EXPECT_TRUE(room.come(seconds{5}, 1));
  EXPECT_FALSE(room.come(seconds{39}, 2));
  EXPECT_TRUE(room.come(seconds{40}, 2));
}

TEST(Concurrency, WaitsForAsManyLeasesAsItTakes) {
  Room room(4, seconds{30});
  EXPECT_TRUE(room.come(Nanos{0}, 1));
  EXPECT_TRUE(room.come(seconds{1}, 2, 2));
  EXPECT_EQ(room.ask(seconds{2}, 3, 2).retry_after, seconds{28});
  EXPECT_EQ(room.ask(seconds{2}, 3, 3).retry_after, seconds{29});
  EXPECT_EQ(room.ask(seconds{2}, 3, 5).outcome, Outcome::impossible);
  EXPECT_EQ(room.ask(seconds{2}, 3, -1).outcome, Outcome::impossible);
}

// Leases stay in the order in which they end, also when a limit's lease was shortened meanwhile.
TEST(Concurrency, FindsTheFirstLeaseToEndAfterAChange) {
  Room room(2, seconds{30});
  EXPECT_TRUE(room.come(Nanos{0}, 1));
  room.limit = *Concurrency::make(2, seconds{5});
  EXPECT_TRUE(room.come(seconds{1}, 2));
  EXPECT_EQ(room.ask(seconds{1}, 3).retry_after, seconds{5});
  EXPECT_EQ(rest_at(room.holders()), kStart + seconds{30});
}

TEST(Concurrency, CannotBeMadeOfNumbersThatMeanNothing) {
  EXPECT_EQ(Concurrency::make(0, seconds{1}).error(), Flaw::capacity_too_small);
  EXPECT_EQ(Concurrency::make(kMaxConcurrent + 1, seconds{1}).error(), Flaw::capacity_too_large);
  EXPECT_EQ(Concurrency::make(1, Nanos{0}).error(), Flaw::period_not_positive);
  EXPECT_EQ(Concurrency::make(1, kLongestDebt + Nanos{1}).error(), Flaw::period_too_long);
}

}  // namespace
}  // namespace weir::core
