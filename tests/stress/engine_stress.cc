// Many threads on one engine, while its policies change. Invariants under any interleaving, counted
// and not timed. The clock stands still unless a test moves it, so that every permit is accounted
// for.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <latch>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "threads.h"
#include "weir/engine.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

// Sanitizers make everything many times slower.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kScale = 10;
#else
constexpr int kScale = 1;
#endif

constexpr int kTakers = 3;
constexpr int kChanges = 10'000 / kScale;

PolicySet policies(const std::string& text) {
  auto set = PolicySet::parse("policies: { " + text + " }");
  if (!set) throw std::invalid_argument(set.error().message);
  return *std::move(set);
}

struct World {
  explicit World(const PolicySet& set, DecisionSink* sink = nullptr)
      : engine(set, {.memory = {.bytes = 1 << 20}, .clock = &clock, .sink = sink}) {}

  Permits used(const Request& request, std::size_t limit) {
    const auto states = engine.explain(request);
    const Decision& decision = states->at(limit).decision;
    return decision.limit - decision.remaining;
  }

  ManualClock clock;
  Engine engine;
};

// Runs `taker(i, going)` on some threads until this thread has changed the policies often enough.
// Each taker completes at least one round, however late it starts.
template <typename Taker>
void while_policies_change(Engine& engine, const PolicySet& one, const PolicySet& other,
                           Taker taker) {
  std::atomic<bool> going{true};
  std::latch begun{kTakers + 1};
  std::vector<std::jthread> takers;
  for (int i = 0; i < kTakers; ++i) {
    takers.emplace_back([&, i] {
      begun.arrive_and_wait();
      taker(i, going);
    });
  }
  begun.arrive_and_wait();
  for (int i = 0; i < kChanges; ++i) engine.replace(i % 2 == 0 ? other : one);
  going = false;
  takers.clear();
  engine.replace(one);
}

constexpr std::array<std::string_view, 4> kKeys{"alice", "bob", "carol", "dave"};

// ---- Policies that change

// Limits of every algorithm, named so that they continue over changes; other limits come and go,
// and all change their order. The tighter ones allow half as much or less, at emission intervals
// that are no whole nanoseconds.
PolicySet loose(Permits count) {
  const std::string n = std::to_string(count);
  return policies("p: { limits: [ { limit: " + n + "/h, name: bucket }, { limit: " + n +
                  "/h window, name: window }, { limit: " + n + "/h sliding, name: sliding }, " +
                  "4000000000/day ] }");
}
PolicySet tight(Permits count) {
  const std::string half = std::to_string(count / 2);
  const std::string third = std::to_string(count / 3);
  return policies("p: { limits: [ { limit: " + half + "/h sliding, name: sliding }, " +
                  "4000000000/h window, { limit: " + third +
                  "/h, name: bucket }, { limit: " + half + "/h window, name: window } ] }");
}

// Takes by every verb while `going`, and counts the admitted permits.
using PerKey = std::array<std::atomic<Permits>, kKeys.size()>;

void take_in_all_ways(Engine& engine, int taker, const std::atomic<bool>& going, PerKey& admitted) {
  std::minstd_rand random(static_cast<unsigned>(taker) + 1);
  std::array<Request, 20> requests;
  std::array<Verdict, 20> verdicts;
  std::array<std::size_t, 20> whose{};
  Receipt receipt;
  do {
    const std::size_t key = random() % kKeys.size();
    const Request request{.policy = "p", .key = kKeys[key]};
    switch (random() % 8) {
      case 0:
        for (std::size_t i = 0; i < requests.size(); ++i) {
          whose[i] = random() % kKeys.size();
          requests[i] = {.policy = "p", .key = kKeys[whose[i]]};
        }
        engine.take_all(requests, verdicts);
        for (std::size_t i = 0; i < requests.size(); ++i) admitted[whose[i]] += bool(verdicts[i]);
        break;
      case 1:
        EXPECT_TRUE(engine.peek(request).error.empty());
        break;
      case 2:
        EXPECT_EQ(engine.explain(request)->size(), 4u);
        break;
      case 3:
        admitted[key] += bool(engine.take(request, receipt));
        break;
      default:
        admitted[key] += bool(engine.take(request));
    }
  } while (going);
}

// Permits taken under one set of policies count under the other, exactly.
TEST(EngineStress, ChangesNeitherMintNorLosePermits) {
  const PolicySet one = loose(1'000'000'000);
  World world{one};
  PerKey admitted{};
  while_policies_change(world.engine, one, tight(1'000'000'000), [&](int taker, auto& going) {
    take_in_all_ways(world.engine, taker, going, admitted);
  });
  for (std::size_t key = 0; key < kKeys.size(); ++key) {
    EXPECT_GT(admitted[key], 0);
    for (std::size_t limit = 0; limit < 3; ++limit) {
      EXPECT_EQ(world.used({.policy = "p", .key = kKeys[key]}, limit), admitted[key]) << limit;
    }
  }
}

// No key gets more than the looser policies allow. Once those stay in force, no key gets less.
TEST(EngineStress, ChangesAllowAsMuchAsTheLooserPolicies) {
  const PolicySet one = loose(3000);
  World world{one};
  PerKey admitted{};
  while_policies_change(world.engine, one, tight(3000), [&](int taker, auto& going) {
    take_in_all_ways(world.engine, taker, going, admitted);
  });
  for (std::size_t key = 0; key < kKeys.size(); ++key) {
    EXPECT_LE(admitted[key], 3000);
    while (world.engine.take({.policy = "p", .key = kKeys[key]})) ++admitted[key];
    EXPECT_EQ(admitted[key], 3000);
  }
}

// While time passes: at most the burst and the rate of the looser policies.
TEST(EngineStress, ChangesDoNotExceedTheLooserRate) {
  const PolicySet one = policies("p: { limits: [ { limit: 1000/s burst 50, name: a } ] }");
  const PolicySet other = policies("p: { limits: [ { limit: 300/s burst 20, name: a } ] }");
  World world{one};
  PerKey admitted{};
  while_policies_change(world.engine, one, other, [&](int taker, auto& going) {
    std::minstd_rand random(static_cast<unsigned>(taker) + 1);
    do {
      if (taker == 0 && random() % 4 == 0) world.clock.advance(Nanos{random() % 2'000'000});
      const std::size_t key = random() % kKeys.size();
      const auto permits = static_cast<Permits>(1 + random() % 3);
      const Request request{.policy = "p", .key = kKeys[key], .permits = permits};
      admitted[key] += world.engine.take(request) ? permits : 0;
    } while (going);
  });
  const auto passed = world.clock.now() - ManualClock::kStart;
  for (const auto& count : admitted) EXPECT_LE(count, 50 + passed / 1ms);
}

// Receipts from before a change, used after it, never refund permits that were not taken.
TEST(EngineStress, ReceiptsMintNothingWhilePoliciesChange) {
  const PolicySet one = loose(1'000'000'000);
  World world{one};
  PerKey kept{};
  while_policies_change(world.engine, one, tight(1'000'000'000), [&](int taker, auto& going) {
    std::minstd_rand random(static_cast<unsigned>(taker) + 1);
    do {
      const std::size_t key = random() % kKeys.size();
      const auto permits = static_cast<Permits>(1 + random() % 5);
      Request request{.policy = "p", .key = kKeys[key], .permits = permits};
      Receipt receipt;
      EXPECT_TRUE(world.engine.take(request, receipt));
      const auto back = static_cast<Permits>(random() % 5);
      kept[key] += std::max<Permits>(permits - 2 * back, 0);
      request.permits = -back;
      EXPECT_TRUE(world.engine.settle(request, receipt));
      EXPECT_TRUE(world.engine.settle(request, receipt));
    } while (going);
  });
  for (std::size_t key = 0; key < kKeys.size(); ++key) {
    for (std::size_t limit = 0; limit < 3; ++limit) {
      EXPECT_GE(world.used({.policy = "p", .key = kKeys[key]}, limit), kept[key]) << limit;
    }
  }
}

// Holders never exceed the looser policies, while others renew and peek.
TEST(EngineStress, HoldersNeverExceedTheLimit) {
  const PolicySet one = policies("p: { limits: [ 3 concurrent, 1000000000/h ] }");
  const PolicySet other = policies("p: { limits: [ 1000000000/h, 2 concurrent lease 90s ] }");
  World world{one};
  std::atomic<int> inside{0};
  std::atomic<int> entered{0};
  while_policies_change(world.engine, one, other, [&](int taker, auto& going) {
    std::minstd_rand random(static_cast<unsigned>(taker) + 1);
    const Request request{.policy = "p", .key = "k"};
    // Each holder takes two permits, or there would always be room for all.
    const std::string holders[] = {std::to_string(taker), std::to_string(taker) + " too"};
    do {
      int mine = 0;
      std::array<bool, 2> is_in{};
      for (std::size_t i = 0; i < 2; ++i) {
        is_in[i] = bool(world.engine.enter(request, holders[i]));
        mine += is_in[i] ? 1 : 0;
      }
      EXPECT_LE(inside += mine, 3);
      entered += mine;
      for (std::size_t i = 0; i < 2; ++i) {
        if (is_in[i] && random() % 2 == 0) {
          EXPECT_TRUE(world.engine.enter(request, holders[i]));
        }
      }
      inside -= mine;
      for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(world.engine.leave(request, holders[i]), is_in[i]);
      }
    } while (going);
  });
  EXPECT_GT(entered, 0);
  EXPECT_EQ(world.used({.policy = "p", .key = "k"}, 0), 0);
}

// ---- Policies that stay

// Users buy products: a call that one limit refuses costs nothing at the other.
TEST(EngineStress, SeveralKeysAreChargedTogetherOrNotAtAll) {
  World world{
      policies("p: { limits: [ { by: user, limit: 300/h }, { by: sku, limit: 250/h window }, "
               "{ by: sku, limit: 400/h sliding exact } ] }")};
  constexpr std::size_t kUsers = 6;
  constexpr std::size_t kProducts = 5;
  std::array<std::atomic<Permits>, kUsers> bought{};
  std::array<std::atomic<Permits>, kProducts> sold{};
  const auto about = [](const std::string& user, const std::string& sku) {
    return Request{.policy = "p", .parts = {{"user", user}, {"sku", sku}}};
  };
  store::in_threads(4, [&](int thread) {
    std::minstd_rand random(static_cast<unsigned>(thread) + 1);
    for (int i = 0; i < 40'000 / kScale; ++i) {
      const std::size_t user = random() % kUsers;
      const std::size_t product = random() % kProducts;
      const std::string name = std::to_string(user);
      const std::string sku = std::to_string(product);
      Request request = about(name, sku);
      request.permits = static_cast<Permits>(1 + random() % 3);
      if (!world.engine.take(request)) continue;
      bought[user] += request.permits;
      sold[product] += request.permits;
    }
  });
  for (std::size_t user = 0; user < kUsers; ++user) {
    const std::string name = std::to_string(user);
    EXPECT_EQ(world.used(about(name, "0"), 0), bought[user]);
  }
  for (std::size_t product = 0; product < kProducts; ++product) {
    const std::string sku = std::to_string(product);
    EXPECT_EQ(world.used(about("0", sku), 1), sold[product]);
    EXPECT_EQ(world.used(about("0", sku), 2), sold[product]);
  }
}

TEST(EngineStress, ReceiptsGiveBackExactlyTheTakenPermits) {
  World world{loose(3000)};
  PerKey kept{};
  store::in_threads(4, [&](int thread) {
    std::minstd_rand random(static_cast<unsigned>(thread) + 1);
    for (int i = 0; i < 40'000 / kScale; ++i) {
      const std::size_t key = random() % kKeys.size();
      Request request{.policy = "p", .key = kKeys[key]};
      request.permits = static_cast<Permits>(1 + random() % 5);
      Receipt receipt;
      if (!world.engine.take(request, receipt)) continue;
      const Permits back = random() % 16 == 0 ? request.permits / 3 : request.permits;
      kept[key] += std::max<Permits>(request.permits - 2 * back, 0);
      request.permits = -back;
      EXPECT_TRUE(world.engine.settle(request, receipt));
      EXPECT_TRUE(world.engine.settle(request, receipt));
    }
  });
  for (std::size_t key = 0; key < kKeys.size(); ++key) {
    for (std::size_t limit = 0; limit < 4; ++limit) {
      EXPECT_EQ(world.used({.policy = "p", .key = kKeys[key]}, limit), kept[key]) << limit;
    }
  }
}

// ---- Sinks

class Counts final : public DecisionSink {
 public:
  void on_decision(const DecisionEvent& event) noexcept override {
    ++(event.verdict ? passed : refused);
    if (event.policy != "p") ++wrong;
    if (event.limits.size() != 4) ++wrong;
  }
  std::atomic<std::int64_t> passed{0};
  std::atomic<std::int64_t> refused{0};
  std::atomic<std::int64_t> wrong{0};
};

TEST(EngineStress, SinksReceiveEveryDecisionOnce) {
  Counts sink;
  const PolicySet one = loose(3000);
  World world{one, &sink};
  std::atomic<std::int64_t> passed{0};
  std::atomic<std::int64_t> refused{0};
  while_policies_change(world.engine, one, tight(3000), [&](int, auto& going) {
    std::vector<Request> requests(33, Request{.policy = "p", .key = "k"});
    requests[5].key = {};
    std::vector<Verdict> verdicts(requests.size());
    do {
      world.engine.take_all(requests, verdicts);
      for (const Verdict& verdict : verdicts) {
        if (verdict.error.empty()) ++(verdict ? passed : refused);
      }
      ++(world.engine.take({.policy = "p", .key = "k"}) ? passed : refused);
    } while (going);
  });
  EXPECT_EQ(sink.passed, passed);
  EXPECT_EQ(sink.refused, refused);
  EXPECT_EQ(sink.wrong, 0);
}

// ---- Engines

// Threads outlive engines and cache their last lookup. The next engine may have the address of the
// one before and must not be confused with it.
TEST(EngineStress, EnginesCanBeCreatedAndDestroyedConcurrently) {
  struct Numbered {
    explicit Numbered(int number)
        : name("engine " + std::to_string(number)),
          engine(policies("p: { limits: [ { limit: 1000000/h, name: " + name + " } ] }"),
                 {.memory = {.bytes = 64 << 10}, .clock = &clock}) {}
    ManualClock clock;
    std::string name;
    Engine engine;
  };
  std::mutex mutex;
  auto current = std::make_shared<Numbered>(0);
  std::atomic<bool> going{true};
  std::vector<std::jthread> takers;
  for (int i = 0; i < kTakers; ++i) {
    takers.emplace_back([&] {
      do {
        std::shared_ptr<Numbered> mine;
        {
          const std::lock_guard lock(mutex);
          mine = current;
        }
        for (int n = 0; n < 20; ++n) {
          EXPECT_EQ(mine->engine.take({.policy = "p", .key = "k"}).limited_by, mine->name);
        }
      } while (going);
    });
  }
  for (int i = 1; i <= 2000 / kScale; ++i) {
    auto next = std::make_shared<Numbered>(i);
    const std::lock_guard lock(mutex);
    current = std::move(next);
  }
  going = false;
}

}  // namespace
}  // namespace weir
