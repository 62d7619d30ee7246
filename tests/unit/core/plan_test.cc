#include "core/plan.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "at.h"

namespace weir::core {
namespace {

template <typename L>
Limit limit(const Result<L, Flaw>& made) {
  return *made;
}

// A tenant has 100/s and 1000/day: a call that one limit refuses is not charged to the other.
TEST(Plan, ChargesNeitherWhenOneRefuses) {
  const Limit rate = limit(Bucket::make(per_second(2), 2));
  const Limit day = limit(Window::make(per(10, hours{24}), false));
  State in_rate;
  State in_day;
  const std::array charges{Charge{&rate, &in_rate}, Charge{&day, &in_day}};
  EXPECT_TRUE(take(charges, kStart).decision);
  EXPECT_TRUE(take(charges, kStart).decision);
  const State before = in_day;
  const Verdict refused = take(charges, kStart);
  EXPECT_EQ(refused.decision.outcome, Outcome::limited);
  EXPECT_EQ(refused.tightest, 0u);
  EXPECT_EQ(refused.decision.retry_after, milliseconds{500});
  EXPECT_EQ(in_day, before);
}

TEST(Plan, NamesTheLimitWithTheSmallestRemainingWhenItPasses) {
  const Limit wide = limit(Bucket::make(per_second(100), 100));
  const Limit narrow = limit(Bucket::make(per_second(5), 5));
  State in_wide;
  State in_narrow;
  const std::array charges{Charge{&wide, &in_wide}, Charge{&narrow, &in_narrow}};
  const Verdict passed = take(charges, kStart);
  EXPECT_EQ(passed.tightest, 1u);
  EXPECT_EQ(passed.decision.remaining, 4);
}

// `impossible` counts as the longest retry.
TEST(Plan, NamesTheLimitWithTheLongestRetryWhenRefused) {
  const Limit slow = limit(Bucket::make(per(1, hours{1}), 5));
  const Limit small = limit(Bucket::make(per_second(1), 2));
  State in_slow = debit(std::get<Bucket>(slow), {}, kStart, 5);
  State in_small = debit(std::get<Bucket>(small), {}, kStart, 2);
  std::array charges{Charge{&slow, &in_slow}, Charge{&small, &in_small}};
  EXPECT_EQ(take(charges, kStart).tightest, 0u);
  charges[1].ask.cost = 3;
  const Verdict never = take(charges, kStart);
  EXPECT_EQ(never.tightest, 1u);
  EXPECT_EQ(never.decision.outcome, Outcome::impossible);
  EXPECT_EQ(never.decision.retry_after, kNever);
}

// One limit counts calls, the other one tokens.
TEST(Plan, ChargesEachLimitItsOwnCostAndReportsTheLongestWait) {
  const Limit calls = limit(Bucket::make_queue(per_second(10), 9, 0));
  const Limit tokens = limit(Bucket::make_queue(per_second(100), 99, 0));
  State in_calls;
  State in_tokens;
  const std::array charges{Charge{&calls, &in_calls, {1, kForever}},
                           Charge{&tokens, &in_tokens, {31, kForever}}};
  EXPECT_EQ(take(charges, kStart).decision.wait, Nanos{0});
  const Verdict second = take(charges, kStart);
  EXPECT_EQ(second.tightest, 0u);
  EXPECT_EQ(second.decision.wait, milliseconds{310});
  EXPECT_EQ(second.decision.remaining, 8);
}

TEST(Plan, NeverRefusesBecauseOfAShadow) {
  const Limit wide = limit(Bucket::make(per_second(10), 10));
  const Limit shadow = limit(Bucket::make(per_second(1), 1));
  State in_wide;
  State in_shadow;
  const std::array charges{Charge{&wide, &in_wide}, Charge{&shadow, &in_shadow, {}, true}};
  EXPECT_TRUE(take(charges, kStart).decision);
  const State once = in_shadow;
  const Verdict second = take(charges, kStart);
  EXPECT_TRUE(second.decision);
  EXPECT_EQ(second.tightest, 0u);
  EXPECT_EQ(second.decision.remaining, 8);
  EXPECT_EQ(in_shadow, once) << "a shadow that refuses is not charged";
  const std::array alone{charges[1]};
  EXPECT_TRUE(take(alone, kStart).decision);
}

struct Room {
  explicit Room(Permits count) : limit(*Concurrency::make(count, seconds{30})), entries(8) {}
  Charge charge(bool shadow = false) { return {&limit, Holders{size, entries}, {}, shadow}; }
  Limit limit;
  std::uint32_t size = 0;
  std::vector<Holder> entries;
};

// Entering again renews the hold time and does not charge the rate limit.
TEST(Plan, ChargesNothingForARenewal) {
  const Limit rate = limit(Bucket::make(per_second(1), 1));
  State in_rate;
  Room room(2);
  const std::array charges{Charge{&rate, &in_rate}, room.charge()};
  EXPECT_TRUE(take(charges, kStart, {.low = 7}).decision);
  EXPECT_FALSE(take(charges, kStart, {.low = 8}).decision);
  EXPECT_TRUE(take(charges, kStart, {.low = 7}).decision);
  EXPECT_TRUE(leave(charges, kStart, {.low = 7}));
  EXPECT_FALSE(leave(charges, kStart, {.low = 7}));
}

// A full shadow limit has never admitted the holder; its renewal must not be charged for that.
TEST(Plan, ChargesNothingForARenewalWhileAShadowIsFull) {
  const Limit rate = limit(Bucket::make(per_second(1), 2));
  State in_rate;
  Room room(2);
  Room shadow(1);
  const std::array charges{Charge{&rate, &in_rate}, room.charge(), shadow.charge(true)};
  EXPECT_TRUE(take(charges, kStart, {.low = 1}).decision);
  EXPECT_TRUE(take(charges, kStart, {.low = 2}).decision);
  EXPECT_TRUE(take(charges, kStart, {.low = 2}).decision);
}

TEST(Plan, SettlesEachLimitByItsReceipt) {
  const Limit calls = limit(Bucket::make(per_second(10), 10));
  const Limit tokens = limit(Window::make(per(100, minutes{1}), false));
  State in_calls;
  State in_tokens;
  std::array charges{Charge{&calls, &in_calls, {1}}, Charge{&tokens, &in_tokens, {50}}};
  std::array<Receipt, 2> receipts;
  EXPECT_TRUE(take(charges, kStart, {}, receipts).decision);
  EXPECT_EQ(receipts[1].taken, 50);
  charges[0].ask.cost = 0;
  charges[1].ask.cost = -30;
  EXPECT_TRUE(settle(charges, kStart, receipts).decision);
  EXPECT_EQ(receipts[1].taken, 20);
  charges[1].ask.cost = 70;
  EXPECT_EQ(settle(charges, kStart, receipts).decision.remaining, 9);
  EXPECT_EQ(remaining(std::get<Window>(tokens), in_tokens, kStart), 10);
}

// Negating the most negative number would overflow.
TEST(Plan, SettlesTheLargestRefundWithoutOverflow) {
  const Limit calls = limit(Bucket::make(per_second(10), 10));
  State in_calls;
  std::array charges{Charge{&calls, &in_calls, {4}}};
  std::array<Receipt, 1> receipts;
  EXPECT_TRUE(take(charges, kStart, {}, receipts).decision);
  charges[0].ask.cost = std::numeric_limits<Permits>::min();
  EXPECT_EQ(settle(charges, kStart, receipts).decision.remaining, 10);
}

TEST(Plan, ClearsItsDataOnReset) {
  const Limit calls = limit(Bucket::make(per_second(10), 10));
  State in_calls;
  const std::array charges{Charge{&calls, &in_calls, {4}}};
  EXPECT_TRUE(take(charges, kStart).decision);
  reset(charges[0].memory);
  EXPECT_TRUE(in_calls.never_seen());
  Room room(1);
  const std::array enter{room.charge()};
  EXPECT_TRUE(take(enter, kStart, {.low = 1}).decision);
  reset(enter[0].memory);
  EXPECT_TRUE(take(enter, kStart, {.low = 2}).decision);
}

TEST(Plan, AdmitsACallWithoutLimits) { EXPECT_TRUE(take({}, kStart).decision); }

// Metrics count refusals of settled permits too.
TEST(Plan, ReportsDebitsThatWouldHaveBeenRefused) {
  const Limit window = limit(Window::make(per(10, hours{1}), false));
  const Limit wide = limit(Window::make(per(100, hours{1}), false));
  State in_window;
  State in_wide;
  const std::array charges{Charge{&window, &in_window, {.cost = 7}},
                           Charge{&wide, &in_wide, {.cost = 7}}};
  std::array<Receipt, 2> receipts{};
  std::array<Decision, 2> each{};
  const Verdict first = settle(charges, kStart, receipts, each);
  EXPECT_EQ(first.refusing, 0u);
  EXPECT_EQ(each[0].remaining, 3);
  const Verdict second = settle(charges, kStart, receipts, each);
  EXPECT_TRUE(second.decision);
  EXPECT_EQ(second.refusing, 1u);
  // The first has its decision before the debit, the second its decision after it.
  EXPECT_EQ(each[0].outcome, Outcome::limited);
  EXPECT_EQ(each[0].remaining, 3);
  EXPECT_EQ(each[1].remaining, 86);
  // The debit was applied nevertheless.
  EXPECT_EQ(remaining(std::get<Window>(window), in_window, kStart), 0);
  EXPECT_FALSE(peek(charges, kStart).decision);
}

}  // namespace
}  // namespace weir::core
