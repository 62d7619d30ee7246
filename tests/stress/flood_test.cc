// A flood of keys: its effect on memory and on keys that were there before.

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <random>
#include <thread>

#include "store.h"

namespace weir::store {
namespace {

std::size_t resident_bytes() {
  std::size_t total = 0;
  std::size_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

constexpr bool sanitized() { return scaled(100) != 100; }

// Ten times as many live keys as slots: the process does not grow beyond the table, and old keys
// keep their state.
TEST(Flood, StaysWithinItsMemory) {
  constexpr std::size_t bytes = std::size_t{sanitized() ? 2 : 16} << 20;
  const std::size_t before = resident_bytes();
  StateFileReport opened;
  const auto opening = Table::open({.bytes = bytes, .record_bytes = 0}, kStart, opened);
  ASSERT_TRUE(opening);
  Table& table = **opening;
  const auto slots = static_cast<int>(table.use(kStart).slots);
  const int flood = 10 * slots;
  const Rule rule{.limit = bucket(1, hours{1}, 5)};
  for (int i = 0; i < slots / 4; ++i) ASSERT_TRUE(take(table, rule, nth(i), Nanos{0}, 3));
  for (int i = slots / 4; i < flood; ++i) (void)take(table, rule, nth(i), Nanos{0}, 3);

  const MemoryUse use = table.use(kStart);
  EXPECT_LE(use.bytes, bytes);
  EXPECT_EQ(use.forgotten, 0u);
  EXPECT_GE(use.live, use.slots * 97 / 100);
  EXPECT_EQ(use.shared + use.live, static_cast<std::uint64_t>(flood) + 1)
      << "each has a place of its own or shares one";
  if (!sanitized()) {
    EXPECT_LE(resident_bytes() - before, bytes + (std::size_t{2} << 20));
  }
  for (int i = 0; i < slots / 4; i += 7) {
    ASSERT_EQ(peek(table, rule, nth(i), Nanos{0}).remaining, 2);
    ASSERT_FALSE(take(table, rule, nth(i), Nanos{0}, 3));
  }
}

// A flood timed by an attacker that knows when each key will be at rest: it comes a nanosecond
// before, at, or a nanosecond after that instant, with new keys or with those refused before. Every
// grant would also be granted by an unbounded table.
void flood(WhenFull when_full) {
  constexpr int victims = 40;
  constexpr TableLayout layout{.rows = 8, .overflow_rows = 1};
  const Rule rule{.limit = bucket(1, hours{1}, 5), .when_full = when_full};
  const Rule flooding{.limit = bucket(1, minutes{10}, 3), .identity = 2};
  Table table(layout);
  std::vector<core::State> endless(victims);
  std::mt19937 random(17);
  Nanos now{0};
  int granted = 0;
  for (int round = 0; round < scaled(2'000); ++round) {
    const int first = random() % 2 == 0 ? 0 : round * 100;
    const int size = round % 3 * 150;
    for (int i = first; i < first + size; ++i) (void)take(table, flooding, nth(i), now);
    for (int i = 0; i < 10; ++i) {
      const std::size_t victim = random() % victims;
      const Permits cost = static_cast<Permits>(random() % 5 + 1);
      const std::string name = "victim " + std::to_string(victim);
      if (!take(table, rule, name, now, cost)) continue;
      const auto taken = core::take(std::get<core::Bucket>(rule.limit), endless[victim],
                                    kStart + now, {.cost = cost});
      ASSERT_TRUE(taken.decision) << name << " in round " << round;
      endless[victim] = taken.next;
      ++granted;
    }
    const std::string next = "victim " + std::to_string(random() % victims);
    const Nanos rest = peek(table, rule, next, now).reset_after;
    const Nanos pause = rest > Nanos{0} ? rest : minutes{random() % 20};
    now += std::max(pause + Nanos{static_cast<int>(random() % 3) - 1}, Nanos{0});
  }
  const MemoryUse use = table.use(kStart + now);
  EXPECT_GT(granted, scaled(1'000));
  EXPECT_GT(use.forgotten, static_cast<std::uint64_t>(scaled(2'000)));
  EXPECT_GT(when_full == WhenFull::deny ? use.denied : use.shared, 0u)
      << "there must have been a lack of room";
}

TEST(Flood, ForgivesNoKeyWhateverItsTiming) { flood(WhenFull::deny); }
TEST(Flood, ForgivesNoKeyInASharedSlot) { flood(WhenFull::share); }

// One thread finds the table full while another finds a slot for the same key: together they get
// the limit of the key.
TEST(Flood, GrantsAKeyNothingTwiceWhileItGetsASlot) {
  const Rule resident{.limit = bucket(1, seconds{1}, 1), .identity = 1};
  for (const core::Limit& limit : {bucket(1, hours{1}, 5), exact(5, hours{1})}) {
    const Rule rule{.limit = limit, .identity = 2};
    for (int round = 0; round < scaled(3'000); ++round) {
      Table table({.rows = 1, .overflow_rows = 1, .record_bytes = 16 << 10});
      for (int i = 0; i < 15; ++i) ASSERT_TRUE(take(table, resident, nth(i), Nanos{0}));
      std::atomic<int> admitted = 0;
      std::atomic<int> ready = 0;
      const auto take_at = [&](Nanos at) {
        ready.fetch_add(1);
        while (ready.load() < 2) std::this_thread::yield();
        for (int i = 0; i < 6; ++i) admitted += take(table, rule, "alice", at) ? 1 : 0;
      };
      std::thread full([&] { take_at(milliseconds{900}); });
      take_at(milliseconds{1100});
      full.join();
      ASSERT_LE(admitted, 5) << "round " << round;
      ASSERT_GT(admitted, 0);
    }
  }
}

}  // namespace
}  // namespace weir::store
