// peek: the verdict of a take, without the charge.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "world.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

TEST(EnginePeek, ChargesNothing) {
  World world{"api: { limits: [ 5/h, 5/h window, 5/h sliding exact, 5/day ] }"};
  EXPECT_TRUE(world.take("api", "k"));
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(world.engine.peek({.policy = "api", .key = "k", .permits = 4}));
  }
  EXPECT_THAT(world.all_left("api", "k"), ElementsAre(4, 4, 4, 4));
}

// A peek must not use table memory.
TEST(EnginePeek, StoresNoKey) {
  World world{"api: { limits: [ 5/h, 5/h sliding exact ] }"};
  for (int i = 0; i < 100; ++i) EXPECT_EQ(world.left("api", "key " + std::to_string(i)), 5);
  EXPECT_EQ(world.engine.memory().live, 0u);
  EXPECT_EQ(world.engine.memory().record_used, 0u);
}

TEST(EnginePeek, ReportsTheCurrentRemaining) {
  World world{"api: { limits: [ 5/h ] }"};
  EXPECT_TRUE(world.take("api", "k", 2));
  const Verdict fits = world.engine.peek({.policy = "api", .key = "k", .permits = 3});
  EXPECT_TRUE(fits);
  EXPECT_EQ(fits.decision.remaining, 3);
  const Verdict too_many = world.engine.peek({.policy = "api", .key = "k", .permits = 4});
  EXPECT_EQ(too_many.decision.outcome, Outcome::limited);
  EXPECT_EQ(too_many.decision.remaining, 3);
  EXPECT_EQ(too_many.decision.retry_after, 12min);
  EXPECT_FALSE(world.engine.peek({.policy = "api", .key = "k", .permits = 6}));
}

TEST(EnginePeek, ReportsTheWaitOfATake) {
  World world{"queue: { limits: [ 1/s queue 5 ] }"};
  EXPECT_EQ(world.admits("queue", "k", 3), 3);
  const Verdict later = world.engine.peek({.policy = "queue", .key = "k"});
  EXPECT_EQ(later.decision.wait, 3s);
  EXPECT_FALSE(world.engine.peek({.policy = "queue", .key = "k", .max_wait = 2s}));
}

TEST(EnginePeek, ReportsWhetherAHolderCouldEnter) {
  World world{"report: { limits: [ 1 concurrent lease 30s ] }"};
  const Request request{.policy = "report", .key = "k"};
  EXPECT_TRUE(world.engine.peek(request, "a"));
  EXPECT_TRUE(world.engine.enter(request, "a"));
  EXPECT_TRUE(world.engine.peek(request, "a"));  // it would renew
  EXPECT_FALSE(world.engine.peek(request, "b"));
  EXPECT_FALSE(world.engine.peek(request));
  world.clock.advance(30s);
  EXPECT_TRUE(world.engine.peek(request, "b"));
}

// ---- Random policies

constexpr const char* kLimits[] = {"5/s",
                                   "7/s burst 3",
                                   "100/min burst 9",
                                   "4/s window",
                                   "6/2s window from first",
                                   "5/s sliding",
                                   "5/s sliding exact",
                                   "20/day",
                                   "3/s queue 4",
                                   "3/s queue 4 delay 2",
                                   "2/s smooth",
                                   "{ limit: 4/s queue 3, like: nginx }",
                                   "{ limit: 5/s, shadow: true }",
                                   "{ limit: 4/s window, shadow: true }"};

// One to four different limits.
std::string random_limits(std::minstd_rand& random) {
  std::vector<std::string> all(std::begin(kLimits), std::end(kLimits));
  std::ranges::shuffle(all, random);
  std::string list = all[0];
  for (std::size_t i = 1; i <= random() % 4; ++i) list += ", " + all[i];
  return list;
}

Request random_request(std::minstd_rand& random) {
  static constexpr std::string_view keys[] = {"alice", "bob"};
  Request request{.policy = "p", .key = keys[random() % 2]};
  request.permits = static_cast<Permits>(random() % 6);
  if (random() % 3 == 0) request.max_wait = Nanos{random() % 4 * 300'000'000};
  return request;
}

template <typename Check>
void on_random_policies(Check check) {
  std::minstd_rand random(20260101);
  for (int policy = 0; policy < 60; ++policy) {
    const std::string limits = random_limits(random);
    SCOPED_TRACE(limits);
    World world{"p: { limits: [ " + limits + " ] }"};
    for (int i = 0; i < 60 && !testing::Test::HasFailure(); ++i) {
      world.clock.advance(Nanos{random() % 5 * 70'000'000 + random() % 3});
      check(world, random_request(random));
    }
  }
}

TEST(EnginePeek, AgreesWithTheNextTake) {
  int passed = 0;
  int refused = 0;
  on_random_policies([&](World& world, const Request& request) {
    const Verdict seen = world.engine.peek(request);
    const Verdict taken = world.engine.take(request);
    EXPECT_EQ(seen.refusing, taken.refusing);
    EXPECT_EQ(seen.decision.outcome, taken.decision.outcome);
    EXPECT_EQ(seen.decision.wait, taken.decision.wait);
    EXPECT_EQ(seen.decision.retry_after, taken.decision.retry_after);
    if (!taken) {
      EXPECT_EQ(seen.decision, taken.decision);
      EXPECT_EQ(seen.limited_by, taken.limited_by);
    }
    ++(taken ? passed : refused);
  });
  EXPECT_GT(passed, 1000);
  EXPECT_GT(refused, 1000);
}

// The remaining after a take is what a peek right after it reports.
TEST(EnginePeek, ReportsTheRemainingOfTheLastTake) {
  on_random_policies([&](World& world, const Request& request) {
    const Verdict taken = world.engine.take(request);
    if (!taken) return;
    const Request look{
        .policy = request.policy, .key = request.key, .permits = 0, .max_wait = kForever};
    const Verdict seen = world.engine.peek(look);
    EXPECT_EQ(seen.limited_by, taken.limited_by);
    EXPECT_EQ(seen.decision.limit, taken.decision.limit);
    EXPECT_EQ(seen.decision.remaining, taken.decision.remaining);
    EXPECT_EQ(seen.decision.reset_after, taken.decision.reset_after);
  });
}

bool is_tighter(const Decision& a, const Decision& b) {
  const auto retry = [](const Decision& d) {
    return d.retry_after == kNever ? Nanos::max() : d.retry_after;
  };
  if (static_cast<bool>(a) != static_cast<bool>(b)) return !a;
  return a ? a.remaining < b.remaining : retry(a) > retry(b);
}

// The decisions of the single limits give the verdict.
TEST(EnginePeek, AgreesWithExplain) {
  on_random_policies([&](World& world, const Request& request) {
    (void)world.engine.take(request);
    const auto states = world.engine.explain(request);
    ASSERT_TRUE(states);
    const Verdict seen = world.engine.peek(request);
    const bool only_shadows = std::ranges::all_of(*states, &LimitState::shadow);
    std::uint32_t refusing = 0;
    const LimitState* tightest = nullptr;
    for (std::size_t i = 0; i < states->size(); ++i) {
      const LimitState& state = (*states)[i];
      refusing |= (state.decision ? 0u : 1u) << i;
      if (state.shadow && !only_shadows) continue;
      if (tightest == nullptr || is_tighter(state.decision, tightest->decision)) tightest = &state;
    }
    EXPECT_EQ(seen.refusing, refusing);
    EXPECT_EQ(seen.limited_by, tightest->name);
    EXPECT_EQ(seen.decision.remaining, tightest->decision.remaining);
    EXPECT_EQ(seen.decision.reset_after, tightest->decision.reset_after);
    EXPECT_EQ(seen.decision.outcome, only_shadows ? Outcome::allowed : tightest->decision.outcome);
  });
}

}  // namespace
}  // namespace weir
