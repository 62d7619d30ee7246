// Engine::throttle: limits that the call brings along, without a policy.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <limits>
#include <thread>

#include "../../support/folder.h"
#include "core/redis_cell.h"
#include "engine/engine_access.h"
#include "weir/parse_limit.h"
#include "world.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

Limit limit_of(std::string_view text) {
  auto limit = parse_limit(text);
  if (!limit) throw std::invalid_argument(limit.error().message);
  return *std::move(limit);
}

// The remaining permits of the key "k" after a take of `permits`.
Permits left_after(Engine& engine, std::string_view limit, Permits permits) {
  const Verdict verdict = engine.throttle(limit_of(limit), "k", permits);
  EXPECT_TRUE(verdict) << limit << verdict.error;
  return verdict.decision.remaining;
}

// An engine without policies.
struct WorldWithoutPolicies : World {
  WorldWithoutPolicies() : World("") {}

  Permits left_after(std::string_view limit, Permits permits) {
    return weir::left_after(engine, limit, permits);
  }
  Permits left(std::string_view limit) { return left_after(limit, 0); }
};

// A limit of ten for each algorithm that has a text form.
constexpr const char* kTenTexts[] = {
    "10/h",         "7/h burst 10",       "10/h window", "10/h window from first",
    "10/h sliding", "10/h sliding exact", "10/day",      "10/h queue 9 nodelay"};

// ---- Identity of limits

TEST(EngineThrottle, NeedsNoPolicy) {
  for (const char* limit : kTenTexts) {
    WorldWithoutPolicies world;
    const Verdict verdict = world.engine.throttle(limit_of(limit), "k", 4);
    EXPECT_TRUE(verdict) << limit;
    EXPECT_EQ(verdict.decision.limit, 10) << limit;
    EXPECT_EQ(verdict.decision.remaining, 6) << limit;
    EXPECT_EQ(verdict.limited_by, "0");
    EXPECT_EQ(verdict.refusing, 0u);
  }
}

TEST(EngineThrottle, TakesOnePermitByDefault) {
  WorldWithoutPolicies world;
  EXPECT_EQ(world.engine.throttle(limit_of("10/h"), "k").decision.remaining, 9);
}

TEST(EngineThrottle, SharesUsageAmongEqualLimits) {
  for (const char* limit : kTenTexts) {
    WorldWithoutPolicies world;
    EXPECT_EQ(world.left_after(limit, 4), 6) << limit;
    EXPECT_EQ(world.left_after(limit, 4), 2) << limit;
  }
}

// Another notation of a limit is the same limit.
TEST(EngineThrottle, SharesUsageAmongNotationsOfALimit) {
  WorldWithoutPolicies world;
  EXPECT_EQ(world.left_after("10/h", 4), 6);
  EXPECT_EQ(world.left_after("10 per 60min", 1), 5);
  EXPECT_EQ(world.left_after("10/h burst 10", 1), 4);
}

// A customer with a raised limit keeps the usage.
TEST(EngineThrottle, KeepsUsageWhenACountChanges) {
  WorldWithoutPolicies world;
  EXPECT_EQ(world.left_after("10/h window", 6), 4);
  EXPECT_EQ(world.left("20/h window"), 14);
  EXPECT_EQ(world.left("6/h window"), 0);
}

TEST(EngineThrottle, CountsOtherKindsOfLimitsSeparately) {
  WorldWithoutPolicies world;
  for (const char* limit :
       {"10/h", "10/min", "10/h window", "10/min window", "10/h window from first", "10/h sliding",
        "10/h sliding exact", "10/min sliding exact", "10/day", "10/day in Asia/Shanghai",
        "10/month", "10/month from day 15"}) {
    EXPECT_EQ(world.left_after(limit, 4), 6) << limit;
  }
}

TEST(EngineThrottle, CountsKeysSeparately) {
  WorldWithoutPolicies world;
  const Limit limit = limit_of("1/h");
  EXPECT_TRUE(world.engine.throttle(limit, "alice"));
  EXPECT_TRUE(world.engine.throttle(limit, "bob"));
  EXPECT_FALSE(world.engine.throttle(limit, "alice"));
}

TEST(EngineThrottle, IsIndependentOfPolicies) {
  const std::vector<std::string> names{"", "k", "0", "throttle", "throttle0:;", "cl.throttle"};
  PolicySet policies;
  for (const std::string& name : names) policies.add(name, limit_of("10/h"));
  World world{""};
  world.engine.replace(policies);
  EXPECT_EQ(left_after(world.engine, "10/h", 10), 0);
  for (const std::string& name : names) EXPECT_EQ(world.left(name, "k"), 10) << name;
  for (const std::string& name : names) EXPECT_TRUE(world.take(name, "k", 3));
  world.clock.advance(6min);
  EXPECT_EQ(left_after(world.engine, "10/h", 0), 1);
}

TEST(EngineThrottle, IsIndependentOfRedisCell) {
  WorldWithoutPolicies world;
  const auto cell = *core::RedisCell::make(9, 10, 3600);
  EXPECT_EQ(world.left_after("10/h", 10), 0);
  EXPECT_EQ(detail::EngineAccess::throttle(world.engine, cell, "k", 4).decision.remaining, 6);
  EXPECT_EQ(world.left("10/h"), 0);
}

// ---- Refusals

TEST(EngineThrottle, ChargesNothingWhenItRefuses) {
  for (const char* limit : kTenTexts) {
    WorldWithoutPolicies world;
    EXPECT_EQ(world.left_after(limit, 6), 4) << limit;
    const Verdict refused = world.engine.throttle(limit_of(limit), "k", 5, Nanos{0});
    EXPECT_EQ(refused.decision.outcome, Outcome::limited) << limit;
    EXPECT_EQ(refused.decision.remaining, 4) << limit;
    EXPECT_GT(refused.decision.retry_after, 0s) << limit;
    EXPECT_EQ(refused.refusing, 1u) << limit;
    EXPECT_EQ(refused.error, "") << limit;
    EXPECT_EQ(world.left(limit), 4) << limit;
  }
}

TEST(EngineThrottle, PassesAfterItsRetryTime) {
  for (const char* limit : kTenTexts) {
    WorldWithoutPolicies world;
    EXPECT_EQ(world.left_after(limit, 10), 0) << limit;
    const Verdict refused = world.engine.throttle(limit_of(limit), "k", 1, Nanos{0});
    world.clock.advance(refused.decision.retry_after - 1ns);
    EXPECT_FALSE(world.engine.throttle(limit_of(limit), "k", 1, Nanos{0})) << limit;
    world.clock.advance(1ns);
    EXPECT_TRUE(world.engine.throttle(limit_of(limit), "k", 1, Nanos{0})) << limit;
  }
}

TEST(EngineThrottle, NeverPassesAboveTheCapacity) {
  for (const char* limit : kTenTexts) {
    WorldWithoutPolicies world;
    for (const Permits permits : {Permits{11}, std::numeric_limits<Permits>::max(), Permits{-1},
                                  std::numeric_limits<Permits>::min()}) {
      const Verdict verdict = world.engine.throttle(limit_of(limit), "k", permits);
      EXPECT_EQ(verdict.decision.outcome, Outcome::impossible) << limit << " " << permits;
      EXPECT_EQ(verdict.decision.retry_after, kNever) << limit << " " << permits;
    }
    EXPECT_EQ(world.left(limit), 10) << limit;
  }
}

TEST(EngineThrottle, AlwaysPassesZeroPermits) {
  for (const char* limit : kTenTexts) {
    WorldWithoutPolicies world;
    EXPECT_EQ(world.left(limit), 10) << limit;
    EXPECT_EQ(world.left_after(limit, 10), 0) << limit;
    EXPECT_EQ(world.left(limit), 0) << limit;
  }
}

TEST(EngineThrottle, NeedsAKey) {
  WorldWithoutPolicies world;
  const auto error_of = [&](std::string_view key) {
    const Verdict verdict = world.engine.throttle(limit_of("10/h"), key);
    EXPECT_FALSE(verdict);
    EXPECT_EQ(verdict.decision.outcome, Outcome::impossible);
    return verdict.error;
  };
  EXPECT_EQ(error_of(""), "the key is empty");
  EXPECT_EQ(error_of(std::string(4097, 'k')), "the key has 4097 bytes, at most 4096 are allowed");
  EXPECT_TRUE(world.engine.throttle(limit_of("10/h"), std::string(4096, 'k')));
}

TEST(EngineThrottle, AcceptsAnyBytesAsAKey) {
  using namespace std::string_view_literals;
  WorldWithoutPolicies world;
  for (const std::string_view key : {"\0"sv, "\0\0"sv, "k\0"sv, "\xff\xfe"sv, "k"sv}) {
    EXPECT_TRUE(world.engine.throttle(limit_of("1/h"), key));
    EXPECT_FALSE(world.engine.throttle(limit_of("1/h"), key));
  }
}

// There is no way to leave.
TEST(EngineThrottle, RefusesConcurrencyLimits) {
  WorldWithoutPolicies world;
  const Verdict verdict = world.engine.throttle(limit_of("5 concurrent"), "k");
  EXPECT_FALSE(verdict);
  EXPECT_EQ(verdict.error, "a concurrent limit is entered and left: give it to a policy");
}

// ---- Waits

TEST(EngineThrottle, LetsCallersOfAQueueWait) {
  WorldWithoutPolicies world;
  const Limit queue = limit_of("1/s queue 3");
  EXPECT_EQ(world.engine.throttle(queue, "k").decision.wait, 0s);
  EXPECT_EQ(world.engine.throttle(queue, "k").decision.wait, 1s);
  EXPECT_EQ(world.engine.throttle(queue, "k").decision.wait, 2s);
}

TEST(EngineThrottle, RefusesLongerWaitsThanTheMaximum) {
  WorldWithoutPolicies world;
  const Limit queue = limit_of("1/s queue 3");
  EXPECT_TRUE(world.engine.throttle(queue, "k", 1, 0s));
  const Verdict refused = world.engine.throttle(queue, "k", 1, 999ms);
  EXPECT_EQ(refused.decision.outcome, Outcome::limited);
  EXPECT_EQ(refused.decision.retry_after, 1ms);
  EXPECT_EQ(world.engine.throttle(queue, "k", 1, 1s).decision.wait, 1s);
}

TEST(EngineThrottle, LetsCallersOfABucketWaitIfTheyAllowIt) {
  WorldWithoutPolicies world;
  const Limit bucket = limit_of("1/s");
  EXPECT_TRUE(world.engine.throttle(bucket, "k"));
  EXPECT_FALSE(world.engine.throttle(bucket, "k"));
  EXPECT_FALSE(world.engine.throttle(bucket, "k", 1, 999ms));
  EXPECT_EQ(world.engine.throttle(bucket, "k", 1, 1s).decision.wait, 1s);
}

// ---- Reloads and restarts

TEST(EngineThrottle, KeepsUsageWhenPoliciesChange) {
  World world{"p: { limits: [ 10/h ] }"};
  EXPECT_EQ(left_after(world.engine, "10/h", 4), 6);
  world.engine.replace(policies("q: { limits: [ 20/h ] }"));
  EXPECT_EQ(left_after(world.engine, "10/h", 4), 2);
  world.engine.replace({});
  EXPECT_EQ(left_after(world.engine, "10/h", 0), 2);
}

TEST(EngineThrottle, KeepsUsageInAStateFile) {
  const support::Folder folder;
  ManualClock clock;
  const auto reopened = [&] {
    auto engine = Engine::open(
        {}, {.memory = {.bytes = 1 << 20, .state_file = folder / "state"}, .clock = &clock});
    if (!engine) throw std::invalid_argument(engine.error().message);
    return *std::move(engine);
  };
  for (const Permits left : {6, 2}) {
    Engine engine = reopened();
    for (const char* limit : kTenTexts) {
      EXPECT_EQ(engine.throttle(limit_of(limit), limit, 4).decision.remaining, left) << limit;
    }
  }
}

// ---- Many threads

TEST(EngineThrottle, AdmitsExactlyTheLimitToManyThreads) {
  for (const char* text : {"1000/h", "1000/h window", "1000/h sliding", "1000/h sliding exact"}) {
    WorldWithoutPolicies world;
    std::atomic<int> admitted = 0;
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
          const Limit limit = limit_of(text);
          for (int n = 0; n < 500; ++n) admitted += world.engine.throttle(limit, "k") ? 1 : 0;
        });
      }
    }
    EXPECT_EQ(admitted, 1000) << text;
  }
}

}  // namespace
}  // namespace weir
