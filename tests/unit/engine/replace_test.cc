// Engine::replace: limits that continue keep their usage.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "../../support/fake_fleet.h"
#include "engine/policy_set_access.h"
#include "weir/async_engine.h"
#include "world.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

std::string named(const std::string& name, const std::string& limit) {
  return "{ limit: " + limit + ", name: " + name + " }";
}

// The remaining permits under each limit: six were taken under `before`, then the limits became
// `after`.
std::vector<Permits> left_when(const std::string& before, const std::string& after) {
  OnePolicy world{before};
  EXPECT_TRUE(world.take(6));
  world.become(after);
  return world.all_left();
}

// ---- Identity of limits

TEST(EngineReplace, KeepsUsageWhenNothingChanges) {
  for (const char* limit : {"10/min", "10/min window", "10/h sliding", "10/h sliding exact",
                            "10/day", "10/min queue 9 nodelay", "10/h window from first"}) {
    EXPECT_THAT(left_when(limit, limit), ElementsAre(4)) << limit;
  }
}

TEST(EngineReplace, KeepsUsageWhenACountChanges) {
  EXPECT_THAT(left_when("10/min", "20/min"), ElementsAre(14));
  EXPECT_THAT(left_when("10/min", "10/min burst 30"), ElementsAre(24));
  EXPECT_THAT(left_when("10/min", "8/min"), ElementsAre(2));
  EXPECT_THAT(left_when("10/min", "5/min"), ElementsAre(0));
  EXPECT_THAT(left_when("10/h window", "20/h window"), ElementsAre(14));
  EXPECT_THAT(left_when("10/h window", "5/h window"), ElementsAre(0));
  EXPECT_THAT(left_when("10/h window from first", "20/h window from first"), ElementsAre(14));
  EXPECT_THAT(left_when("10/h sliding", "20/h sliding"), ElementsAre(14));
  EXPECT_THAT(left_when("10/h sliding exact", "20/h sliding exact"), ElementsAre(14));
  EXPECT_THAT(left_when("10/h sliding exact", "5/h sliding exact"), ElementsAre(0));
  EXPECT_THAT(left_when("10/day", "20/day"), ElementsAre(14));
}

TEST(EngineReplace, DropsUsageWhenThePeriodChanges) {
  EXPECT_THAT(left_when("10/min", "10/s"), ElementsAre(10));
  EXPECT_THAT(left_when("10/h window", "10/min window"), ElementsAre(10));
  EXPECT_THAT(left_when("10/day", "10/week"), ElementsAre(10));
  EXPECT_THAT(left_when("10/day", "10/day in Asia/Shanghai"), ElementsAre(10));
}

// A named limit is the same limit, whatever its numbers.
TEST(EngineReplace, KeepsUsageUnderAName) {
  EXPECT_THAT(left_when(named("a", "10/min"), named("a", "20/s")), ElementsAre(14));
  EXPECT_THAT(left_when(named("a", "10/h window"), named("a", "20/min window")), ElementsAre(14));
  EXPECT_THAT(left_when(named("a", "10/day"), named("a", "20/month")), ElementsAre(14));
  EXPECT_THAT(left_when(named("a", "10/min"), named("b", "10/min")), ElementsAre(10));
  EXPECT_THAT(left_when("10/min", named("a", "10/min")), ElementsAre(10));
}

// The state of one algorithm is meaningless to another.
TEST(EngineReplace, DropsUsageWhenTheAlgorithmChanges) {
  EXPECT_THAT(left_when("10/min", "10/min window"), ElementsAre(10));
  EXPECT_THAT(left_when(named("a", "10/min window"), named("a", "10/min sliding")),
              ElementsAre(10));
  EXPECT_THAT(left_when(named("a", "10/min sliding exact"), named("a", "10/min")), ElementsAre(10));
  EXPECT_THAT(left_when("10/h window", "10/h window from first"), ElementsAre(10));
}

// A queue is a bucket with waits: the same algorithm.
TEST(EngineReplace, KeepsUsageWhenABucketBecomesAQueue) {
  EXPECT_THAT(left_when("10/min", "10/min queue 19 nodelay"), ElementsAre(14));
}

TEST(EngineReplace, FollowsLimitsThatChangePositions) {
  EXPECT_THAT(left_when("10/min, 20/h, 30/h window", "30/h window, 10/min, 20/h"),
              ElementsAre(24, 4, 14));
  EXPECT_THAT(left_when("10/min, 20/h", "50/s, 20/h"), ElementsAre(50, 14));
  const std::string a = named("a", "10/h");
  const std::string b = named("b", "20/h");
  EXPECT_THAT(left_when(a + ", " + b, b + ", " + a), ElementsAre(14, 4));
}

// Unnamed limits of one period are distinguished by their order only.
TEST(EngineReplace, DistinguishesEqualLimitsByTheirOrder) {
  OnePolicy world{"{ limit: 10/h, cost: 1 }, { limit: 100/h, cost: 20 }"};
  EXPECT_TRUE(world.take());
  EXPECT_THAT(world.all_left(), ElementsAre(9, 80));
  world.become("10/h, 100/h, 100/h");
  EXPECT_THAT(world.all_left(), ElementsAre(9, 80, 100));
  world.become("100/h, 100/h");
  EXPECT_THAT(world.all_left(), ElementsAre(99, 80));
}

TEST(EngineReplace, KeepsUsageWhenCostAndShadowChange) {
  EXPECT_THAT(left_when("10/h", "{ limit: 10/h, cost: 3 }"), ElementsAre(4));
  EXPECT_THAT(left_when("10/h", "{ limit: 10/h, shadow: true }"), ElementsAre(4));
}

TEST(EngineReplace, DropsUsageWhenTheKeyPartsChange) {
  OnePolicy world{"{ by: user, limit: 10/h }"};
  const Request request{.policy = "p", .parts = {{"user", "alice"}, {"sku", "9"}}, .permits = 6};
  EXPECT_TRUE(world.engine.take(request));
  world.become("{ by: sku, limit: 10/h }");
  EXPECT_THAT(world.all_left(request), ElementsAre(10));
  world.become("{ by: user, limit: 10/h }");
  EXPECT_THAT(world.all_left(request), ElementsAre(4));
}

TEST(EngineReplace, DropsUsageUnderAnotherPolicyName) {
  const std::string limits = "10/h, " + named("a", "10/min");
  OnePolicy world{limits};
  EXPECT_TRUE(world.take(6));
  world.engine.replace(policies("q: { limits: [ " + limits + " ] }"));
  EXPECT_EQ(world.take().error, "there is no policy \"p\" (did you mean \"q\"?)");
  EXPECT_THAT(world.all_left("q", "k"), ElementsAre(10, 10));
  // Usage under the old policy name is kept.
  world.become(limits);
  EXPECT_THAT(world.all_left(), ElementsAre(4, 4));
}

TEST(EngineReplace, KeepsHolders) {
  OnePolicy world{"3 concurrent lease 30s"};
  EXPECT_TRUE(world.enter("a"));
  EXPECT_TRUE(world.enter("b"));
  world.become("1 concurrent lease 60s");
  EXPECT_FALSE(world.enter("c"));
  EXPECT_TRUE(world.enter("a"));  // renewed, although there are too many holders
  EXPECT_TRUE(world.leave("b"));
  EXPECT_FALSE(world.enter("c"));
  world.become("2 concurrent");
  EXPECT_TRUE(world.enter("c"));
}

// ---- Time of the change

// 10/min used up and raised to 20/min leaves 10.
TEST(EngineReplace, AppliesARaisedLimitAtOnce) {
  OnePolicy world{"10/min"};
  EXPECT_EQ(world.admits(20), 10);
  world.become("20/min");
  EXPECT_EQ(world.admits(20), 10);
}

// Debt beyond the new limit drains at the new rate first.
TEST(EngineReplace, AppliesALoweredLimitAtOnce) {
  OnePolicy world{"20/min"};
  EXPECT_TRUE(world.take(15));
  world.become("10/min");
  EXPECT_EQ(world.take().decision.retry_after, 36s);  // six permits too many
  world.clock.advance(36s);
  EXPECT_EQ(world.admits(5), 1);
}

// The old rate applies until the change and the new one after it, with or without calls.
TEST(EngineReplace, ChangesTheRateAtTheTimeOfTheChange) {
  OnePolicy world{"10/min"};
  EXPECT_TRUE(world.take(10));
  world.clock.advance(30s);  // five drained
  world.become("60/min");
  EXPECT_EQ(world.left(), 55);
  world.clock.advance(3s);
  EXPECT_EQ(world.left(), 58);
  world.become("1/min burst 60");
  world.clock.advance(1min);
  EXPECT_EQ(world.left(), 59);
}

TEST(EngineReplace, KeepsUsageThroughManyChanges) {
  for (const char* kind : {"", " window", " sliding exact"}) {
    const auto ten_and = [&](int more) {
      return named("a", std::to_string(10 + more) + "/h" + kind);
    };
    OnePolicy world{ten_and(0)};
    for (int i = 0; i < 100; ++i) {
      world.become(ten_and(i % 13));
      if (i % 20 == 10) {
        EXPECT_TRUE(world.take());
      }
    }
    world.become(ten_and(0));
    EXPECT_EQ(world.left(), 5) << kind;
  }
}

TEST(EngineReplace, CountsGenerations) {
  OnePolicy world{"10/min"};
  EXPECT_EQ(world.engine.generation(), 1u);
  world.become("10/min");
  EXPECT_EQ(world.engine.generation(), 2u);
  world.engine.replace({});
  EXPECT_EQ(world.engine.generation(), 3u);
  EXPECT_EQ(world.take().error, "there is no policy \"p\"");
}

TEST(EngineReplace, ChangesTheModeForAFullTable) {
  OnePolicy world{"1/h", "when_full: allow"};
  const auto fill = [&] {
    for (int i = 0; i < 40'000; ++i) (void)world.take("key " + std::to_string(i));
  };
  fill();
  EXPECT_GT(world.engine.memory().untracked, 0u);
  world.become("1/h", "when_full: deny");
  EXPECT_EQ(world.engine.memory().denied, 0u);
  fill();
  EXPECT_GT(world.engine.memory().denied, 0u);
}

// Two engines on one thread must not use each other's rules.
TEST(EngineReplace, AffectsOneEngineOnly) {
  OnePolicy one{named("one", "10/h")};
  OnePolicy two{named("two", "20/h")};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(one.take().limited_by, "one");
    EXPECT_EQ(two.take().limited_by, "two");
  }
  one.become(named("other", "10/h"));
  EXPECT_EQ(two.take().limited_by, "two");
  EXPECT_EQ(one.take().limited_by, "other");
}

// The cached rules of a destroyed engine must not be used by the next engine at its address.
TEST(EngineReplace, LeavesNoRulesToTheNextEngine) {
  ManualClock clock;
  std::optional<Engine> engine;
  for (int i = 0; i < 5; ++i) {
    const std::string name = "limit " + std::to_string(i);
    engine.emplace(policies(only(named(name, "10/h"))), small_on(clock));
    EXPECT_EQ(engine->take({.policy = "p", .key = "k"}).limited_by, name);
  }
}

TEST(EngineReplace, WorksAfterAnEngineIsMoved) {
  OnePolicy world{"10/h"};
  EXPECT_TRUE(world.take());
  Engine moved = std::move(world.engine);
  moved.replace(policies(only("20/h")));
  EXPECT_EQ(moved.take({.policy = "p", .key = "k"}).decision.remaining, 18);
  EXPECT_EQ(moved.generation(), 2u);
}

// ---- Lifetime of old policies

// A calendar with days of one second. The tests check when it is freed.
class Seconds final : public core::Calendar {
 public:
  core::Span span_at(Instant t) const override {
    const Instant start = std::chrono::floor<std::chrono::seconds>(t);
    return {start, start + 1s};
  }
};

PolicySet with(std::shared_ptr<const core::Calendar> calendar) {
  policy::PolicySet set;
  set["p"].limits.push_back({.limit = *core::CalendarWindow::make(5, std::move(calendar))});
  return policy_set_of(std::move(set));
}

TEST(EngineReplace, FreesOldPolicies) {
  ManualClock clock;
  auto first = std::make_shared<const Seconds>();
  const std::weak_ptr<const Seconds> watched = first;
  Engine engine{with(std::move(first)), small_on(clock)};
  const Request request{.policy = "p", .key = "k"};
  EXPECT_TRUE(engine.take(request));
  EXPECT_FALSE(watched.expired());
  engine.replace(with(std::make_shared<const Seconds>()));
  EXPECT_EQ(engine.take(request).decision.remaining, 3);
  EXPECT_TRUE(watched.expired());
}

// The cached rules of an ended thread are freed.
TEST(EngineReplace, FreesOldPoliciesCachedByEndedThreads) {
  ManualClock clock;
  auto first = std::make_shared<const Seconds>();
  const std::weak_ptr<const Seconds> watched = first;
  Engine engine{with(std::move(first)), small_on(clock)};
  std::jthread{[&] { EXPECT_TRUE(engine.take({.policy = "p", .key = "k"})); }}.join();
  engine.replace({});
  EXPECT_TRUE(watched.expired());
}

// Thousands of changes leave a bounded history.
TEST(EngineReplace, KeepsABoundedHistory) {
  OnePolicy world{named("a", "10/h")};
  EXPECT_TRUE(world.take());
  for (int i = 0; i < 2000; ++i) {
    PolicySet set;
    set.add("other", per_hour(1 + i));
    world.become(named("a", std::to_string(100 + i) + "/h"));
  }
  EXPECT_EQ(world.engine.generation(), 2001u);
  EXPECT_GE(world.left(), 2098 - 10);
}

// ---- Full tables

// The remaining permits of K after a change of its limit and a flood of new keys that took all free
// slots.
Permits left_after_flood(const std::string& before, const std::string& after, Nanos pause) {
  ManualClock clock;
  EngineOptions options = small_on(clock);
  options.memory = {.bytes = 4096 + 4 * 512 + 4096, .record_bytes = 4096};
  const auto with = [](const std::string& limit) {
    return policies(only(named("x", limit)) + ", flood: { limits: [ 1/s ] }");
  };
  Engine engine(with(before), options);
  while (engine.take({.policy = "p", .key = "K"})) continue;
  clock.advance(1s);
  engine.replace(with(after));
  clock.advance(pause);
  for (int i = 0; i < 400; ++i) {
    (void)engine.take({.policy = "flood", .key = std::to_string(i)});
  }
  clock.advance(2s);
  Permits taken = 0;
  while (engine.take({.policy = "p", .key = "K"})) ++taken;
  return taken;
}

// A debt at the change remains under the new limit: its slot must not be freed before.
TEST(EngineReplace, KeepsADebtThatDrainsMoreSlowly) {
  EXPECT_EQ(left_after_flood("600/min burst 100", "1/min burst 100", 12s), 10);
  EXPECT_EQ(left_after_flood("100 per 10s window", "100 per 1h window", 12s), 0);
  EXPECT_EQ(left_after_flood("100 per 10s window from first", "100 per 1h window from first", 12s),
            0);
  EXPECT_EQ(left_after_flood("100 per 10s sliding exact", "100 per 1h sliding exact", 12s), 0);
  EXPECT_EQ(left_after_flood("100 per 10s sliding", "100 per 1h sliding", 25s), 0);
  EXPECT_EQ(left_after_flood("50/day", "50/month", 48h), 0);
}

// The same for many keys with overrides.
TEST(EngineReplace, KeepsTheDebtsOfManyKeysThatDrainMoreSlowly) {
  ManualClock clock;
  EngineOptions options = small_on(clock);
  options.memory = {.bytes = 4096 + 20 * 512 + 4096, .record_bytes = 4096};
  const auto with = [](int per_hour) {
    std::string text = "p: { limits: [ 1/s ], overrides: { ";
    for (int i = 1; i <= 100; ++i) {
      text += "k" + std::to_string(i) + ": { limits: [ " + std::to_string(per_hour + i) +
              "/h burst 5 ] }, ";
    }
    return policies(text + "} }, flood: { limits: [ 1/s ] }");
  };
  const auto key = [](int i) { return "k" + std::to_string(i); };
  Engine engine(with(3600), options);
  for (int i = 1; i <= 100; ++i) {
    ASSERT_TRUE(engine.take({.policy = "p", .key = key(i), .permits = 5}));
  }
  engine.replace(with(100));
  clock.advance(10s);
  for (int i = 0; i < 2000; ++i) {
    (void)engine.take({.policy = "flood", .key = std::to_string(i)});
  }
  clock.advance(2s);
  for (int i = 1; i <= 100; ++i) {
    EXPECT_LE(engine.peek({.policy = "p", .key = key(i)}).decision.remaining, 1) << i;
  }
}

// The slot of a debt that drains faster is freed earlier.
TEST(EngineReplace, FreesKeysWhoseDebtDrainsFaster) {
  EXPECT_EQ(left_after_flood("1/min burst 10", "600/min burst 100", 12s), 100);
  EXPECT_EQ(left_after_flood("600/min burst 100", "6000/min burst 100", 12s), 100);
}

// A clock that runs a function at its second reading.
class BusyClock final : public Clock {
 public:
  Instant now() const noexcept override {
    if (meanwhile && ++looks_ == 2) std::exchange(meanwhile, nullptr)();
    return ManualClock::kStart;
  }
  bool sleep_until(Instant, std::stop_token) const override { return true; }

  mutable std::function<void()> meanwhile;

 private:
  mutable int looks_ = 0;
};

// An operation reads clock and policies once: they may change in between.
TEST(EngineReplace, CanHappenDuringAnyOperation) {
  const Request request{.policy = "p", .key = "k"};
  const std::pair<const char*, std::function<void(AsyncEngine&, bool&)>> verbs[] = {
      {"take",
       [&](AsyncEngine& async, bool& good) {
         async.take(request, [&](const Verdict& verdict, const Receipt&) { good = bool(verdict); });
       }},
      {"peek",
       [&](AsyncEngine& async, bool& good) {
         async.peek(request, {}, [&](const Verdict& verdict) { good = bool(verdict); });
       }},
      {"settle",
       [&](AsyncEngine& async, bool& good) {
         async.settle(request, [&](const Verdict& verdict) { good = bool(verdict); });
       }},
      {"enter",
       [&](AsyncEngine& async, bool& good) {
         async.enter(request, "me", [&](const Verdict& verdict) { good = bool(verdict); });
       }},
      {"explain", [&](AsyncEngine& async, bool& good) {
         async.explain(request, [&](const Result<Explanation, OperationError>& explanation) {
           good = explanation && explanation->verdict && explanation->limits.size() == 1;
         });
       }}};
  for (const auto& [verb, ask] : verbs) {
    BusyClock clock;
    Engine engine(policies("p: { limits: [ 10/s ] }"), small_on(clock));
    FakeFleet fleet;
    const auto link = fleet.connect();
    AsyncEngine async(engine, *link);
    clock.meanwhile = [&] { engine.replace(PolicySet{}); };
    bool good = false;
    ask(async, good);
    EXPECT_TRUE(good) << verb;
  }
}

}  // namespace
}  // namespace weir
