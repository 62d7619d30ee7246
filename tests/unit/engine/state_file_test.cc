// An engine with a state file: what survives a restart, and what opening_note says.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "../../support/folder.h"
#include "world.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t kBytes = std::size_t{1} << 20;

class StateFile : public testing::Test {
 protected:
  EngineOptions options(std::size_t bytes = kBytes) {
    return {.memory = {.bytes = bytes, .state_file = path_.string()}, .clock = &clock_};
  }
  Engine open(std::string_view text, std::size_t bytes = kBytes) {
    auto engine = Engine::open(policies(text), options(bytes));
    if (!engine) throw std::invalid_argument(engine.error().message);
    return *std::move(engine);
  }
  std::string error_of(const EngineOptions& given) {
    const auto engine = Engine::open(policies("p: { limits: [ 10/h ] }"), given);
    return engine ? "no error" : engine.error().message;
  }

  const support::Folder own_;
  const std::filesystem::path& folder_ = own_.path();
  std::filesystem::path path_ = folder_ / "state";
  ManualClock clock_;
};

constexpr Request kRequest{.policy = "p", .key = "k"};

// ---- Kept state

TEST_F(StateFile, KeepsTheUsageOfEveryLimit) {
  constexpr std::string_view limits =
      "p: { limits: [ 10/h, 7/h burst 10, 10/h window, 10/h sliding, 10/h sliding exact, 10/day, "
      "10/min queue 9 nodelay, 10 concurrent lease 1h ] }";
  {
    Engine engine = open(limits);
    for (const char* holder : {"a", "b", "c"}) EXPECT_TRUE(engine.enter(kRequest, holder));
  }
  Engine engine = open(limits);
  EXPECT_THAT(all_left(engine, kRequest), testing::Each(7));
  EXPECT_TRUE(engine.leave(kRequest, "b"));
  EXPECT_EQ(all_left(engine, kRequest).back(), 8);
  EXPECT_EQ(engine.generation(), 1u);
}

TEST_F(StateFile, ContinuesAsWithoutARestart) {
  EXPECT_TRUE(open("p: { limits: [ 10/min ] }").take({.policy = "p", .key = "k", .permits = 10}));
  clock_.advance(30s);
  Engine engine = open("p: { limits: [ 10/min ] }");
  EXPECT_EQ(engine.peek(kRequest).decision.remaining, 5);
  EXPECT_TRUE(engine.take({.policy = "p", .key = "k", .permits = 5}));
  EXPECT_FALSE(engine.take(kRequest));
}

TEST_F(StateFile, FindsItsLimitsInAnyOrder) {
  EXPECT_TRUE(open("p: { limits: [ 10/min, 20/h ] }, q: { limits: [ 5/h ] }")
                  .take({.policy = "p", .key = "k", .permits = 4}));
  Engine engine = open("a: { limits: [ 1/h ] }, p: { limits: [ 20/h, 30/day, 10/min ] }");
  EXPECT_THAT(all_left(engine, kRequest), ElementsAre(16, 30, 6));
}

// Usage is kept in permits, and drains at the new rate from the first start with the new limit.
TEST_F(StateFile, KeepsTheUsageOfAChangedBucket) {
  EXPECT_TRUE(open("p: { limits: [ 10/min ] }").take({.policy = "p", .key = "k", .permits = 10}));
  {
    Engine engine = open("p: { limits: [ 20/min ] }");
    EXPECT_EQ(engine.peek(kRequest).decision.remaining, 10);
  }
  clock_.advance(15s);  // one in three seconds
  Engine engine = open("p: { limits: [ 20/min ] }");
  EXPECT_EQ(engine.peek(kRequest).decision.remaining, 15);
  EXPECT_TRUE(engine.take(kRequest));
  EXPECT_EQ(engine.peek(kRequest).decision.remaining, 14);
  clock_.advance(3s);
  EXPECT_EQ(engine.peek(kRequest).decision.remaining, 15);
}

TEST_F(StateFile, KeepsTheUsageOfAChangedWindow) {
  constexpr std::string_view before =
      "p: { limits: [ 10/h window, 10/h sliding exact, { limit: 10/day, name: a } ] }";
  EXPECT_TRUE(open(before).take({.policy = "p", .key = "k", .permits = 6}));
  Engine engine =
      open("p: { limits: [ 20/h window, 5/h sliding exact, { limit: 30/month, name: a } ] }");
  EXPECT_THAT(all_left(engine, kRequest), ElementsAre(14, 0, 24));
}

TEST_F(StateFile, KeepsAllKeysWhenTheTableIsResized) {
  constexpr std::string_view limits = "p: { limits: [ 10/h, 10/h sliding exact ] }";
  const auto key = [](int i) { return "key " + std::to_string(i); };
  {
    Engine engine = open(limits);
    for (int i = 0; i < 200; ++i) {
      EXPECT_TRUE(engine.take({.policy = "p", .key = key(i), .permits = 1 + i % 9}));
    }
  }
  for (const std::size_t bytes : {4 * kBytes, kBytes / 2}) {
    Engine engine = open(limits, bytes);
    EXPECT_EQ(engine.memory().bytes <= bytes, true);
    for (int i = 0; i < 200; ++i) {
      EXPECT_THAT(all_left(engine, {.policy = "p", .key = key(i)}), testing::Each(9 - i % 9));
    }
  }
}

// By the rate at which it was used, the key would be at rest.
TEST_F(StateFile, KeepsTheDebtUnderALoweredLimitWhenTheTableIsResized) {
  constexpr std::string_view lowered = "p: { limits: [ 6/h burst 60 ] }";
  {
    Engine engine = open("p: { limits: [ 60/h burst 60 ] }");
    EXPECT_TRUE(engine.take({.policy = "p", .key = "k", .permits = 60}));
    engine.replace(policies(lowered));
    clock_.advance(2h);
  }
  Engine engine = open(lowered, 2 * kBytes);
  EXPECT_THAT(all_left(engine, kRequest), ElementsAre(12));
}

TEST_F(StateFile, KeepsResets) {
  Receipt receipt;
  {
    Engine engine = open("p: { limits: [ 10/h window ] }");
    EXPECT_TRUE(engine.take({.policy = "p", .key = "k", .permits = 6}, receipt));
    EXPECT_FALSE(engine.reset(kRequest));
  }
  Engine engine = open("p: { limits: [ 10/h window ] }");
  EXPECT_TRUE(engine.take({.policy = "p", .key = "k", .permits = 6}));
  EXPECT_TRUE(engine.settle({.policy = "p", .key = "k", .permits = -6}, receipt));
  EXPECT_EQ(engine.peek(kRequest).decision.remaining, 4);
}

// ---- Time

// A machine starts with its clock in the past: no usage is freed by that, and no key waits longer.
TEST_F(StateFile, DoesNotStartBeforeTheTimeItWasLeft) {
  constexpr std::string_view limits = "p: { limits: [ 10/min, 20/h window, 30/h sliding exact ] }";
  clock_.advance(10h + 30min);
  {
    Engine engine = open(limits);
    EXPECT_TRUE(engine.take({.policy = "p", .key = "k", .permits = 10}));
  }
  clock_.set(ManualClock::kStart);
  Engine engine = open(limits);
  EXPECT_THAT(all_left(engine, kRequest), ElementsAre(0, 10, 20));
  EXPECT_EQ(engine.take(kRequest).decision.retry_after, 6s);
  // Time continues from there.
  clock_.advance(6s);
  EXPECT_THAT(all_left(engine, kRequest), ElementsAre(1, 10, 20));
  EXPECT_NE(engine.opening_note().find("the system clock is 37800 s behind the time in this file"),
            std::string::npos)
      << engine.opening_note();
}

// A wall clock that can be set; monotonic time passes independently.
class SetClock final : public Clock {
 public:
  Instant now() const noexcept override { return wall; }
  Nanos monotonic() const noexcept override { return steady; }
  bool sleep_until(Instant, std::stop_token) const override { return true; }
  void advance(Nanos time) {
    wall += time;
    steady += time;
  }

  Instant wall = ManualClock::kStart;
  Nanos steady{1h};
};

// The clock is corrected while the engine runs: the jump is not elapsed time.
TEST_F(StateFile, DoesNotRunAheadOfACorrectedClock) {
  SetClock clock;
  const auto reopened = [&] {
    EngineOptions options{.memory = {.bytes = kBytes, .state_file = path_}, .clock = &clock};
    return *Engine::open(policies("p: { limits: [ 10/day, 10/h window ] }"), options);
  };
  EXPECT_TRUE(reopened().take({.policy = "p", .key = "k", .permits = 10}));
  for (int start = 0; start < 4; ++start) {
    clock.wall -= 8h;
    Engine engine = reopened();
    clock.advance(1s);
    EXPECT_FALSE(engine.take(kRequest));
    clock.wall += 8h;
    EXPECT_FALSE(engine.take(kRequest));
    EXPECT_EQ(engine.now(), clock.wall);
    clock.advance(1s);
    EXPECT_EQ(engine.now(), clock.wall);
  }
  clock.advance(1h);
  Engine engine = reopened();
  EXPECT_EQ(engine.take(kRequest).limited_by, "0") << "the hour has passed, the day has not";
}

// The clock is years behind the file, or was years ahead: the note says so and what to do.
TEST_F(StateFile, ReportsAnImplausibleTime) {
  clock_.advance(24h * 800);
  EXPECT_TRUE(open("p: { limits: [ 10/min ] }").take(kRequest));
  EXPECT_TRUE(open("p: { limits: [ 10/min ] }").state_intact());
  clock_.set(ManualClock::kStart);
  Engine engine = open("p: { limits: [ 10/min ] }");
  EXPECT_THAT(engine.opening_note(),
              testing::HasSubstr("its time is 800 days ahead of the system clock and is ignored"));
  EXPECT_FALSE(engine.state_intact());
}

// A clock that is corrected regularly may be a little behind: time stands still until it catches
// up.
TEST_F(StateFile, WaitsForAClockThatIsALittleBehind) {
  clock_.advance(1h + 30s);
  EXPECT_TRUE(open("p: { limits: [ 10/min ] }").take({.policy = "p", .key = "k", .permits = 10}));
  clock_.set(ManualClock::kStart + 1h);
  Engine engine = open("p: { limits: [ 10/min ] }");
  clock_.advance(30s);
  EXPECT_EQ(engine.peek(kRequest).decision.remaining, 0);
  clock_.advance(6s);
  EXPECT_EQ(engine.peek(kRequest).decision.remaining, 1);
}

// New keys start at the time of the file as well.
TEST_F(StateFile, StartsNewKeysAtTheTimeItWasLeft) {
  clock_.advance(10h);
  EXPECT_TRUE(open("p: { limits: [ 10/h window ] }").take(kRequest));
  clock_.set(ManualClock::kStart);
  Engine engine = open("p: { limits: [ 10/h window ] }");
  const Request stranger{.policy = "p", .key = "stranger", .permits = 10};
  EXPECT_TRUE(engine.take(stranger));
  clock_.advance(59min);
  EXPECT_FALSE(engine.take(stranger));
  clock_.advance(1min);
  EXPECT_TRUE(engine.take(stranger));
}

// ---- The opening note

TEST_F(StateFile, ReportsWhetherItIsNew) {
  {
    Engine engine = open("p: { limits: [ 10/h ] }");
    EXPECT_EQ(engine.opening_note(), path_.string() + " is new: nothing is remembered yet");
  }
  EXPECT_EQ(open("p: { limits: [ 10/h ] }").opening_note(), path_.string() + " was opened again");
  World without{"p: { limits: [ 10/h ] }"};
  EXPECT_EQ(without.engine.opening_note(), "");
}

TEST_F(StateFile, SetsAsideADamagedFile) {
  std::ofstream(path_) << "weirtab2 and no more";
  Engine engine = open("p: { limits: [ 10/h ] }");
  EXPECT_THAT(engine.opening_note(), StartsWith(path_.string() + " was set aside as "));
  EXPECT_TRUE(engine.take(kRequest));
  int aside = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (entry.path().filename().string().find("aside") == std::string::npos) continue;
    ++aside;
    EXPECT_EQ(std::filesystem::file_size(entry.path()), 20u);
  }
  EXPECT_EQ(aside, 1);
}

// ---- Errors

TEST_F(StateFile, HasOneOwner) {
  Engine first = open("p: { limits: [ 10/h ] }");
  EXPECT_THAT(error_of(options()), HasSubstr("is in use by another process"));
  EXPECT_TRUE(first.take(kRequest));
  first = Engine{policies("p: { limits: [ 10/h ] }"), small_on(clock_)};
  EXPECT_EQ(error_of(options()), "no error");
}

TEST_F(StateFile, NeedsAFolder) {
  path_ = folder_ / "none" / "state";
  EXPECT_THAT(error_of(options()), HasSubstr(path_.string()));
  EXPECT_THAT(error_of(options()), HasSubstr("No such file or directory"));
}

TEST_F(StateFile, RefusesAForeignFile) {
  std::ofstream(path_) << "somebody's diary\n";
  EXPECT_THAT(error_of(options()), HasSubstr(path_.string() + " is not a state file of weir"));
  EXPECT_EQ(std::filesystem::file_size(path_), 17u);
}

TEST_F(StateFile, RefusesAFolder) {
  path_ = folder_;
  EXPECT_THAT(error_of(options()), HasSubstr(path_.string()));
}

TEST_F(StateFile, NeedsAMinimumOfMemory) {
  for (const std::size_t bytes : {0u, 1u, 4096u}) {
    EXPECT_THAT(error_of(options(bytes)), StartsWith("a table needs at least "));
    EXPECT_THAT(error_of({.memory = {.bytes = bytes}, .clock = &clock_}),
                StartsWith("a table needs at least "));
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
  const EngineOptions all_records{.memory = {.bytes = kBytes, .record_bytes = kBytes},
                                  .clock = &clock_};
  EXPECT_THAT(error_of(all_records), StartsWith("a table needs at least "));
}

// A table that is too small is refused before any key is lost.
TEST_F(StateFile, DoesNotShrinkBelowItsUse) {
  {
    Engine engine = open("p: { limits: [ 10/h ] }");
    for (int i = 0; i < 5000; ++i) {
      EXPECT_TRUE(engine.take({.policy = "p", .key = std::to_string(i)}));
    }
  }
  EXPECT_THAT(error_of(options(kBytes / 16)), HasSubstr("make the table larger"));
  Engine engine = open("p: { limits: [ 10/h ] }");
  EXPECT_EQ(engine.memory().live, 5000u);
}

// ---- Engines without a state file

TEST(Engine, CannotBeConstructedWithAStateFile) {
  ManualClock clock;
  const support::Folder folder;
  const EngineOptions options{.memory = {.state_file = folder / "state"}, .clock = &clock};
  EXPECT_THROW((Engine{{}, options}), std::invalid_argument);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Engine, CannotBeConstructedWithTooLittleMemory) {
  ManualClock clock;
  const EngineOptions options{.memory = {.bytes = 1000}, .clock = &clock};
  EXPECT_THROW((Engine{{}, options}), std::invalid_argument);
}

TEST(Engine, ReportsItsMemoryUse) {
  World world{"p: { limits: [ 10/h, 10/min ] }"};
  EXPECT_EQ(world.engine.memory().live, 0u);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(world.take("p", std::to_string(i)));
  EXPECT_EQ(world.engine.memory().live, 200u);
  EXPECT_LE(world.engine.memory().bytes, std::size_t{1} << 20);
  world.clock.advance(7s);
  EXPECT_EQ(world.engine.memory().live, 100u);
  world.clock.advance(1h);
  EXPECT_EQ(world.engine.memory().live, 0u);
}

// The defaults are the system clock and 64 MiB.
TEST(Engine, NeedsNothingButPolicies) {
  Engine engine{policies("p: { limits: [ 1/h ] }")};
  EXPECT_TRUE(engine.take({.policy = "p", .key = "k"}));
  EXPECT_FALSE(engine.take({.policy = "p", .key = "k"}));
  EXPECT_GT(engine.memory().slots, 1'000'000u);
}

}  // namespace
}  // namespace weir
