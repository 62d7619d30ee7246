#include "weir/limited.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "weir/concurrency_limiter.h"
#include "weir/limiter.h"
#include "weir/smooth_limiter.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

// A minimal keyed gate.
class PerKey {
 public:
  PerKey(Quota quota, const Clock& clock) : quota_(quota), clock_(clock) {}

  Reservation reserve(std::string_view key, Permits cost, Nanos max_wait) {
    const auto place = limiters_.try_emplace(std::string(key), quota_, clock_).first;
    return place->second.reserve(cost, max_wait);
  }

 private:
  Quota quota_;
  const Clock& clock_;
  std::map<std::string, Limiter, std::less<>> limiters_;
};

static_assert(PermitGate<ConcurrencyLimiter> && !TokenGate<ConcurrencyLimiter>);
static_assert(TokenGate<Limiter> && !PermitGate<Limiter> && TokenGate<SmoothLimiter>);
static_assert(KeyedGate<PerKey, std::string> && !KeyedGate<PerKey, int>);

class LimitedCall : public testing::Test {
 protected:
  ManualClock clock;
  Limiter two{per_second(2), clock};
  ConcurrencyLimiter slots{1, clock};
};

// ---- Return values

TEST_F(LimitedCall, ReturnsTheValueOrTheDenial) {
  auto twice = limited([](int x) { return 2 * x; }).by(two);
  static_assert(std::is_same_v<decltype(twice(1)), Result<int, Denial>>);
  EXPECT_EQ(*twice(4), 8);
  EXPECT_EQ(*twice(5), 10);
  const auto denied = twice(6);
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().decision.outcome, Outcome::limited);
  EXPECT_EQ(denied.error().decision.retry_after, 500ms);
  EXPECT_EQ(denied.error().gate, 0u);
}

TEST_F(LimitedCall, ReturnsMonostateOrTheDenialForAVoidFunction) {
  int calls = 0;
  auto count = limited([&] { ++calls; }).by(two);
  static_assert(std::is_same_v<decltype(count()), Result<std::monostate, Denial>>);
  EXPECT_TRUE(count());
  EXPECT_TRUE(count());
  EXPECT_FALSE(count());
  EXPECT_EQ(calls, 2);
}

TEST_F(LimitedCall, FallsBackWithTheDenialAndTheArguments) {
  auto name = limited([](int id) { return "user " + std::to_string(id); })
                  .by(slots)
                  .by(two)
                  .or_else([](const Denial& denial, int id) {
                    return "gate " + std::to_string(denial.gate) + " for " + std::to_string(id);
                  });
  static_assert(std::is_same_v<decltype(name(1)), std::string>);
  EXPECT_EQ(name(1), "user 1");
  EXPECT_EQ(name(2), "user 2");
  EXPECT_EQ(name(3), "gate 1 for 3");
}

TEST_F(LimitedCall, PassesTheArgumentsThatTheFallbackAccepts) {
  const auto f = [](int x) { return x; };
  EXPECT_TRUE(two.try_acquire(2));
  EXPECT_EQ(limited(f).by(two).or_else([](int x) { return -x; })(4), -4);
  EXPECT_EQ(limited(f).by(two).or_else([] { return 'a'; })(4), 'a');
}

TEST_F(LimitedCall, ReturnsVoidIfFunctionAndFallbackDo) {
  EXPECT_TRUE(two.try_acquire(2));
  int missed = 0;
  auto call = limited([](int) {}).by(two).or_else([&] { return ++missed; });
  static_assert(std::is_void_v<decltype(call(1))>);
  call(1);
  EXPECT_EQ(missed, 1);
}

TEST_F(LimitedCall, ReturnsAReferenceIfTheFallbackDoes) {
  int value = 1;
  int other = 2;
  auto call =
      limited([&]() -> int& { return value; }).by(two).or_else([&]() -> int& { return other; });
  EXPECT_EQ(&call(), &value);
  EXPECT_TRUE(two.try_acquire());
  EXPECT_EQ(&call(), &other);
}

TEST_F(LimitedCall, CallsTheFunctionWithoutAnyGate) {
  EXPECT_EQ(*limited([] { return 7; })(), 7);
}

// ---- Functions of all kinds

int half(int x) { return x / 2; }

struct User {
  std::int64_t id;
  std::int64_t next() const { return id + 1; }
};

TEST_F(LimitedCall, CallsFunctionsAndMembers) {
  EXPECT_EQ(*limited(half).by(two)(8), 4);
  EXPECT_EQ(*limited(&User::next).by(two)(User{8}), 9);
}

TEST_F(LimitedCall, ForwardsItsArguments) {
  auto own = limited([](std::unique_ptr<int> p) { return *p; })
                 .by(two)
                 .or_else([](const Denial&, std::unique_ptr<int> p) { return -*p; });
  EXPECT_EQ(own(std::make_unique<int>(3)), 3);
  EXPECT_TRUE(two.try_acquire());
  EXPECT_EQ(own(std::make_unique<int>(3)), -3);

  int touched = 0;
  two.reset();
  (void)limited([](int& x) { x = 5; }).by(two)(touched);
  EXPECT_EQ(touched, 5);
}

TEST_F(LimitedCall, IsMovableAndCopyableIfTheFunctionIs) {
  auto moving = limited([p = std::make_unique<int>(3)] { return *p; }).by(two);
  static_assert(!std::is_copy_constructible_v<decltype(moving)>);
  const auto moved = std::move(moving);
  EXPECT_EQ(*moved(), 3);

  auto counting = limited([n = 0]() mutable { return ++n; }).by(two);
  static_assert(!std::is_invocable_v<const decltype(counting)&>);
  auto copy = counting;
  two.reset();
  EXPECT_EQ(*counting(), 1);
  EXPECT_EQ(*copy(), 1);  // the function's counter is copied,
  EXPECT_FALSE(copy());   // the gate is shared
}

// ---- Several gates

TEST_F(LimitedCall, TakesTheKeyFromTheArguments) {
  PerKey per_user{per_second(1), clock};
  auto greet =
      limited([](const std::string& user, int) {
        return "hello " + user;
      }).by(per_user, [](const std::string& user, int) -> const std::string& { return user; });
  EXPECT_TRUE(greet("alice", 1));
  EXPECT_FALSE(greet("alice", 2));
  EXPECT_TRUE(greet("bob", 3));
}

TEST_F(LimitedCall, TakesAMemberOfItsArgumentAsTheKey) {
  struct Request {
    std::string user;
  };
  PerKey per_user{per_second(1), clock};
  auto call = limited([](const Request&) {}).by(per_user, &Request::user);
  EXPECT_TRUE(call(Request{"alice"}));
  EXPECT_FALSE(call(Request{"alice"}));
  EXPECT_TRUE(call(Request{"bob"}));
}

// A call that finds no permit loses no token, although the token gate comes first in the chain.
TEST_F(LimitedCall, AsksForPermitsBeforeTokens) {
  auto call = limited([] {}).by(two).by(slots);
  Permit holder = slots.try_enter();
  const auto denied = call();
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().gate, 1u);
  EXPECT_EQ(two.peek().remaining, 2);
  holder.release();
  EXPECT_TRUE(call());
}

TEST_F(LimitedCall, GivesBackGrantsOfOtherGatesWhenRefused) {
  Limiter one{per_second(1), clock};
  auto call = limited([] {}).by(two).by(slots).by(one).or_else([&](const Denial& denial) {
    EXPECT_EQ(denial.gate, 2u);
    EXPECT_EQ(slots.in_flight_approx(), 0);  // released before the fallback is called
    EXPECT_EQ(two.peek().remaining, 1);
  });
  call();
  EXPECT_EQ(two.peek().remaining, 1);
  call();
  EXPECT_EQ(two.peek().remaining, 1);
}

TEST_F(LimitedCall, HoldsItsPermitWhileTheFunctionRuns) {
  auto call = limited([&] { return slots.in_flight_approx(); }).by(slots);
  EXPECT_EQ(*call(), 1);
  EXPECT_EQ(slots.in_flight_approx(), 0);
}

// The function was called: tokens are spent, permits are released, the fallback is not called.
TEST_F(LimitedCall, PropagatesExceptions) {
  auto call =
      limited([]() -> int { throw std::runtime_error("backend"); }).by(slots).by(two).or_else([] {
        return 1;
      });
  EXPECT_THROW((void)call(), std::runtime_error);
  EXPECT_EQ(slots.in_flight_approx(), 0);
  EXPECT_EQ(two.peek().remaining, 1);
}

TEST_F(LimitedCall, GivesBackGrantsWhenKeyOfThrows) {
  PerKey per_user{per_second(1), clock};
  auto call = limited([](int) {}).by(two).by(slots).by(per_user, [](int) -> std::string {
    throw std::runtime_error("key");
  });
  EXPECT_THROW((void)call(1), std::runtime_error);
  EXPECT_EQ(two.peek().remaining, 2);
  EXPECT_EQ(slots.in_flight_approx(), 0);
}

// ---- Waiting

TEST_F(LimitedCall, WaitsForTheLatestOfItsTurns) {
  Limiter four{per_second(4).burst(1), clock};
  auto call = limited([&] { return clock.now() - ManualClock::kStart; })
                  .by(two)
                  .by(four)
                  .on(clock)
                  .wait_at_most(1s);
  EXPECT_EQ(*call(), 0s);
  EXPECT_EQ(*call(), 250ms);
  EXPECT_EQ(*call(), 500ms);
  EXPECT_EQ(*call(), 1s);
}

TEST_F(LimitedCall, WaitsNoLongerThanItsMaximum) {
  auto call = limited([] {}).by(two).on(clock).wait_at_most(400ms);
  EXPECT_TRUE(call());
  EXPECT_TRUE(call());
  const auto denied = call();
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().decision.retry_after, 100ms);
  EXPECT_EQ(clock.now(), ManualClock::kStart);
}

// Time spent waiting for a permit is not available again for a token.
TEST_F(LimitedCall, SharesItsMaximumWaitAmongAllGates) {
  struct SlowGate {
    Permit try_enter() { return slots.try_enter(); }
    Permit enter(Deadline deadline) {
      EXPECT_EQ(deadline.left(clock.now()), 500ms);
      clock.advance(200ms);
      return slots.try_enter();
    }
    ConcurrencyLimiter& slots;
    ManualClock& clock;
  } slow{slots, clock};
  auto call = limited([] {}).by(two).by(slow).on(clock).wait_at_most(500ms);
  EXPECT_TRUE(two.try_acquire(2));
  clock.advance(-1ms);
  const auto denied = call();
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().gate, 0u);
  EXPECT_EQ(denied.error().decision.retry_after, 1ms);
}

TEST_F(LimitedCall, WaitsForAPermit) {
  auto call = limited([] {}).by(slots).on(clock).wait_at_most(500ms);
  const Permit holder = slots.try_enter();
  EXPECT_FALSE(call());
  EXPECT_EQ(clock.now(), ManualClock::kStart + 500ms);
}

TEST_F(LimitedCall, WaitsForeverIfAllowed) {
  Limiter yearly{per(1, std::chrono::hours{365 * 24}), clock};
  auto call = limited([] {}).by(yearly).on(clock).wait_at_most(kForever);
  EXPECT_TRUE(call());
  EXPECT_TRUE(call());
  EXPECT_EQ(clock.now(), ManualClock::kStart + std::chrono::hours{365 * 24});
}

}  // namespace
}  // namespace weir
