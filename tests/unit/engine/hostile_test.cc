// Input from untrusted clients: any value is possible.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "world.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr Permits kLeast = std::numeric_limits<Permits>::min();
constexpr Permits kMost = std::numeric_limits<Permits>::max();

std::string tens() {
  std::string list;
  for (const char* limit : kTens) list += (list.empty() ? "" : ", ") + std::string{limit};
  return "p: { limits: [ " + list + " ] }";
}

std::string one(std::string_view limit) { return "p: { limits: [ " + std::string{limit} + " ] }"; }

// ---- Names

TEST(HostileInput, LongPolicyNamesAreShortenedInErrors) {
  World world{"login: { limits: [ 5/min ] }"};
  const std::string megabyte(1 << 20, 'x');
  const Verdict verdict = world.take(megabyte, "k");
  EXPECT_FALSE(verdict);
  EXPECT_THAT(verdict.error, HasSubstr("there is no policy \"xxx"));
  EXPECT_LT(verdict.error.size(), 300u);
}

TEST(HostileInput, PolicyNamesMayContainAnyBytes) {
  World world{"login: { limits: [ 5/min ] }"};
  using namespace std::string_view_literals;
  EXPECT_FALSE(world.take("login\0"sv, "k"));
  EXPECT_FALSE(world.take("login\0login"sv, "k"));
  EXPECT_FALSE(world.take("\xff\xfe{}%s"sv, "k"));
  EXPECT_TRUE(world.take("login\0"sv.substr(0, 5), "k"));
}

TEST(HostileInput, LongPartNamesAreShortenedInErrors) {
  World world{one("10/h")};
  const std::string megabyte(1 << 20, 'x');
  for (const Parts& parts : {Parts{{megabyte, "v"}}, Parts{{megabyte, "v"}, {megabyte, "v"}},
                             Parts{{megabyte, ""}}, Parts{{"user", megabyte}}}) {
    const Verdict verdict = world.engine.take({.policy = "p", .parts = parts});
    EXPECT_FALSE(verdict);
    EXPECT_LT(verdict.error.size(), 5000u);
  }
}

// ---- Numbers

TEST(HostileInput, NegativePermitsAreImpossible) {
  for (const char* limit : kTens) {
    World world{one(limit)};
    EXPECT_TRUE(world.take("p", "k", 6));
    for (const Permits permits : {Permits{-1}, Permits{-6}, kLeast, kLeast + 1}) {
      EXPECT_EQ(world.take("p", "k", permits).decision.outcome, Outcome::impossible);
      EXPECT_FALSE(world.engine.peek({.policy = "p", .key = "k", .permits = permits}));
    }
    EXPECT_EQ(world.left("p", "k"), 4) << limit;
  }
}

TEST(HostileInput, NegativePermitsCannotEnter) {
  World world{"p: { limits: [ 10/h, 3 concurrent ] }"};
  for (const Permits permits : {Permits{-1}, kLeast, kMost}) {
    const Request request{.policy = "p", .key = "k", .permits = permits};
    EXPECT_FALSE(world.engine.enter(request, "a"));
    EXPECT_FALSE(world.engine.leave(request, "a"));
  }
  EXPECT_THAT(world.all_left("p", "k"), ElementsAre(10, 3));
}

TEST(HostileInput, TooManyPermitsAreImpossible) {
  World world{tens()};
  for (const Permits permits : {kMost, kMost - 1, Permits{1} << 61, Permits{11}}) {
    EXPECT_EQ(world.take("p", "k", permits).decision.outcome, Outcome::impossible);
  }
  EXPECT_THAT(world.all_left("p", "k"), Each(10));
}

// A debt is bounded and never overflows into a credit.
TEST(HostileInput, HugeSettlesEndInBoundedDebt) {
  for (const char* limit : kTens) {
    World world{one(limit)};
    Receipt receipt;
    EXPECT_TRUE(world.engine.take({.policy = "p", .key = "k"}, receipt));
    for (const Permits delta : {kMost, kMost, Permits{1}, kMost - 1}) {
      const Verdict verdict = world.engine.settle({.policy = "p", .key = "k", .permits = delta});
      EXPECT_TRUE(verdict);
      EXPECT_EQ(verdict.decision.remaining, 0) << limit;
      EXPECT_GT(verdict.decision.reset_after, 0s);
    }
    EXPECT_FALSE(world.take("p", "k"));
    for (const Permits delta : {kLeast, kLeast + 1, Permits{-1}}) {
      EXPECT_TRUE(world.engine.settle({.policy = "p", .key = "k", .permits = delta}, receipt));
      EXPECT_EQ(world.left("p", "k"), 0) << limit;
    }
  }
}

TEST(HostileInput, HugeRefundsGiveBackWhatWasTaken) {
  for (const char* limit : kTens) {
    World world{one(limit)};
    EXPECT_TRUE(world.take("p", "k", 3));
    Receipt receipt;
    EXPECT_TRUE(world.engine.take({.policy = "p", .key = "k", .permits = 4}, receipt));
    for (const Permits delta : {kLeast, kLeast, Permits{-1}}) {
      EXPECT_TRUE(world.engine.settle({.policy = "p", .key = "k", .permits = delta}, receipt));
      EXPECT_EQ(world.left("p", "k"), 7) << limit;
    }
  }
}

TEST(HostileInput, WaitsMayHaveAnyLength) {
  for (const char* limit : {"1/h", "1/h queue 5", "1/h window", "1/h sliding exact", "1/h smooth",
                            "{ limit: 1/min queue 5, like: nginx }"}) {
    for (const Nanos wait : {Nanos::min(), Nanos{-1}, Nanos{0}}) {
      World world{one(limit)};
      const Request request{.policy = "p", .key = "k", .max_wait = wait};
      EXPECT_TRUE(world.engine.take(request));
      const Verdict second = world.engine.take(request);
      EXPECT_FALSE(second) << limit;
      EXPECT_EQ(second.decision.wait, 0s);
      EXPECT_GT(second.decision.retry_after, 0s);
    }
    World world{one(limit)};
    const Request patient{.policy = "p", .key = "k", .max_wait = kForever};
    for (int i = 0; i < 10; ++i) {
      const Verdict verdict = world.engine.take(patient);
      EXPECT_GE(verdict.decision.wait, 0s);
      EXPECT_LT(verdict.decision.wait, 100h);
    }
  }
}

// ---- Clocks

constexpr Instant kTimes[] = {Instant::min(),
                              Instant{-1ns},
                              Instant{},
                              Instant{1ns},
                              ManualClock::kStart,
                              Instant{std::chrono::sys_days{std::chrono::year{2115} / 12 / 31}},
                              Instant{Nanos{std::int64_t{1} << 62}},
                              Instant::max() - 1ns,
                              Instant::max()};

TEST(HostileClock, MayShowAnyTime) {
  for (const Instant time : kTimes) {
    for (const char* limit : kTens) {
      World world{one("1000/h window")};
      world.clock.set(time);
      world.engine.replace(policies(one(limit)));
      Receipt receipt;
      EXPECT_TRUE(world.engine.take({.policy = "p", .key = "k", .permits = 6}, receipt));
      EXPECT_EQ(world.left("p", "k"), 4) << limit << time.time_since_epoch().count();
      EXPECT_EQ(world.admits("p", "k", 9), 4);
      EXPECT_TRUE(world.engine.settle({.policy = "p", .key = "k", .permits = -6}, receipt));
      EXPECT_LE(world.left("p", "k"), 6);
      EXPECT_FALSE(world.engine.reset({.policy = "p", .key = "k"}));
      EXPECT_EQ(world.left("p", "k"), 10);
      EXPECT_EQ(world.engine.explain({.policy = "p", .key = "k"})->size(), 1u);
    }
    World world{"p: { limits: [ 2 concurrent ] }"};
    world.clock.set(time);
    EXPECT_TRUE(world.engine.enter({.policy = "p", .key = "k"}, "a"));
    EXPECT_TRUE(world.engine.leave({.policy = "p", .key = "k"}, "a"));
  }
}

// A clock that jumps far ahead and back must not free permits.
TEST(HostileClock, GainsNothingByJumps) {
  for (const char* limit : kTens) {
    World world{one(limit)};
    for (const Instant there : kTimes) {
      for (const Instant then : kTimes) {
        world.clock.set(there);
        (void)world.take("p", "k", 10);
        world.clock.set(then);
        (void)world.take("p", "k", 10);
        EXPECT_EQ(world.left("p", "k"), 0) << limit;
        EXPECT_FALSE(world.take("p", "k"));
      }
    }
  }
}

// ---- Floods of keys

// A flood of new keys neither exceeds its limits nor evicts other keys.
TEST(HostileInput, AFloodOfKeysKeepsExistingKeys) {
  for (const char* when_full : {"share", "deny", "allow"}) {
    World world{"p: { limits: [ 5/h, 5/h window ], when_full: " + std::string{when_full} + " }"};
    EXPECT_EQ(world.admits("p", "alice", 5), 5);
    int passed = 0;
    for (int i = 0; i < 40'000; ++i) passed += world.admits("p", "key " + std::to_string(i), 1);
    EXPECT_EQ(world.admits("p", "alice", 5), 0) << when_full;
    const MemoryUse use = world.engine.memory();
    EXPECT_EQ(use.shared > 0, when_full == std::string_view{"share"});
    EXPECT_EQ(use.denied > 0, when_full == std::string_view{"deny"});
    EXPECT_EQ(use.untracked > 0, when_full == std::string_view{"allow"});
    EXPECT_EQ(passed == 40'000, when_full == std::string_view{"allow"});
    // There is room again once the keys are at rest.
    world.clock.advance(2h);
    EXPECT_EQ(world.admits("p", "somebody new", 9), 5);
    EXPECT_EQ(world.admits("p", "alice", 9), 5);
  }
}

}  // namespace
}  // namespace weir
