#include "core/redis_cell.h"

#include <gtest/gtest.h>

#include "core/limit.h"

namespace weir::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant kStart = instant(1'767'225'600'000'000'000);

// One key of redis-cell.
struct Key {
  State state{};

  Decision ask(const RedisCell& limit, Nanos at, Permits quantity = 1) {
    const StepResult taken = take(limit, state, kStart + at, {.cost = quantity});
    state = taken.next;
    return taken.decision;
  }
};

struct Expected {
  Nanos at;
  Permits quantity;
  Outcome outcome;
  Permits remaining;
  Nanos reset;
  Nanos retry;
};

// A worked example: five at once, one a second.
TEST(RedisCell, AnswersAsRedisCellDoes) {
  const RedisCell limit = *RedisCell::make(4, 1, 1);
  ASSERT_EQ(capacity(limit), 5);
  Key key;
  const Expected table[] = {
      {seconds{0}, 6, Outcome::impossible, 5, seconds{0}, kNever},
      {seconds{0}, 1, Outcome::allowed, 4, seconds{1}, Nanos{0}},
      {seconds{0}, 1, Outcome::allowed, 3, seconds{2}, Nanos{0}},
      {seconds{0}, 1, Outcome::allowed, 2, seconds{3}, Nanos{0}},
      {seconds{0}, 1, Outcome::allowed, 1, seconds{4}, Nanos{0}},
      {seconds{0}, 1, Outcome::allowed, 0, seconds{5}, Nanos{0}},
      {seconds{0}, 1, Outcome::limited, 0, seconds{5}, seconds{1}},
      {milliseconds{3000}, 1, Outcome::allowed, 2, milliseconds{3000}, Nanos{0}},
      {milliseconds{3100}, 1, Outcome::allowed, 1, milliseconds{3900}, Nanos{0}},
      {milliseconds{4000}, 1, Outcome::allowed, 1, milliseconds{4000}, Nanos{0}},
  };
  for (const Expected& row : table) {
    const Decision decision = key.ask(limit, row.at, row.quantity);
    EXPECT_EQ(decision.outcome, row.outcome) << row.at.count();
    EXPECT_EQ(decision.remaining, row.remaining) << row.at.count();
    EXPECT_EQ(decision.reset_after, row.reset) << row.at.count();
    EXPECT_EQ(decision.retry_after, row.retry) << row.at.count();
  }
}

TEST(RedisCell, TakesNothingForAQuantityOfZero) {
  const RedisCell limit = *RedisCell::make(4, 1, 1);
  Key key;
  EXPECT_EQ(key.ask(limit, Nanos{0}, 0).remaining, 5);
  EXPECT_EQ(key.ask(limit, Nanos{0}, 3).remaining, 2);
  EXPECT_EQ(key.ask(limit, Nanos{0}, 0).remaining, 2);
  EXPECT_TRUE(key.ask(limit, Nanos{0}, 0));
}

// 7 a second are one per 142857142 ns, which is slightly more than 7.
TEST(RedisCell, RoundsItsPriceDownToWholeNanoseconds) {
  const RedisCell limit = *RedisCell::make(0, 7, 1);
  EXPECT_EQ(limit.price, Nanos{142'857'142});
}

// Parameters come with each call. The instant in the state does not change with them.
TEST(RedisCell, KeepsItsInstantUnderOtherParameters) {
  Key key;
  EXPECT_EQ(key.ask(*RedisCell::make(4, 1, 1), Nanos{0}, 5).remaining, 0);
  EXPECT_EQ(key.ask(*RedisCell::make(9, 1, 1), Nanos{0}, 0).remaining, 5);
  EXPECT_EQ(key.ask(*RedisCell::make(9, 2, 1), Nanos{0}, 0).remaining, 0);
  // Beyond the depth even a cost of zero is refused.
  const Decision refused = key.ask(*RedisCell::make(3, 1, 1), Nanos{0}, 0);
  EXPECT_EQ(refused.outcome, Outcome::limited);
  EXPECT_EQ(refused.remaining, 0);
  EXPECT_EQ(refused.retry_after, seconds{1});
}

// A negative quantity lowers the debt. Lowering it by more than the debt is an error that clears
// it.
TEST(RedisCell, GivesBackForANegativeQuantity) {
  const RedisCell limit = *RedisCell::make(4, 1, 1);
  Key key;
  EXPECT_EQ(key.ask(limit, Nanos{0}, 3).remaining, 2);
  EXPECT_EQ(key.ask(limit, Nanos{0}, -2).remaining, 4);
  const Decision excess = key.ask(limit, Nanos{0}, -2);
  EXPECT_EQ(excess.outcome, Outcome::impossible);
  EXPECT_EQ(excess.retry_after, Nanos{0});
  EXPECT_EQ(key.ask(limit, Nanos{0}, 0).remaining, 5);
}

TEST(RedisCell, IsAtRestWhenItsInstantHasCome) {
  const RedisCell limit = *RedisCell::make(4, 1, 1);
  Key key;
  (void)key.ask(limit, Nanos{0}, 3);
  EXPECT_EQ(rest_at(limit, key.state, kStart), kStart + seconds{3});
  EXPECT_EQ(key.ask(limit, seconds{3}, 0).remaining, 5);
}

TEST(RedisCell, RejectsInvalidNumbers) {
  EXPECT_EQ(RedisCell::make(4, 0, 1).error(), Flaw::rate_not_positive);
  EXPECT_EQ(RedisCell::make(4, 1, 0).error(), Flaw::period_not_positive);
  EXPECT_EQ(RedisCell::make(-1, 1, 1).error(), Flaw::capacity_too_small);
  EXPECT_EQ(RedisCell::make(kMaxPermits, 1, 1).error(), Flaw::capacity_too_large);
}

// A price below a nanosecond would be rounded to zero, and the limit would never refuse.
TEST(RedisCell, RejectsAPriceBelowANanosecond) {
  EXPECT_EQ(RedisCell::make(0, 2'000'000'000, 1).error(), Flaw::rate_too_high);
  EXPECT_EQ(RedisCell::make(0, 1'000'000'001, 1).error(), Flaw::rate_too_high);
  const RedisCell fastest = *RedisCell::make(0, 1'000'000'000, 1);
  EXPECT_EQ(fastest.price, Nanos{1});
  Key key;
  EXPECT_TRUE(key.ask(fastest, Nanos{0}, 1));
  EXPECT_FALSE(key.ask(fastest, Nanos{0}, 1));
}

// Numbers at the ends of their range must not overflow.
TEST(RedisCell, AcceptsAnyNumbersInRange) {
  constexpr Permits most = std::numeric_limits<Permits>::max();
  constexpr Permits least = std::numeric_limits<Permits>::min();
  for (const Permits burst : {Permits{0}, kMaxPermits - 1}) {
    for (const Permits count : {Permits{1}, Permits{1'000'000'000}}) {
      for (const Permits period : {Permits{1}, most}) {
        const RedisCell limit = *RedisCell::make(burst, count, period);
        Key key;
        for (const Permits quantity : {Permits{0}, Permits{1}, most, least, Permits{-1}}) {
          const Decision decision = key.ask(limit, Nanos{0}, quantity);
          EXPECT_GE(decision.remaining, 0);
          EXPECT_GE(decision.reset_after, Nanos{0});
        }
      }
    }
  }
}

}  // namespace
}  // namespace weir::core
