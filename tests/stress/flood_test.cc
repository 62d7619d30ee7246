// A flood of keys: what it does to memory, and to those who were there before.

#include <gtest/gtest.h>

#include <fstream>
#include <random>

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

// Ten times as many live keys as there are slots: the process does not grow beyond what the table
// was given, and old keys are as they were.
TEST(Flood, StaysWithinItsMemory) {
  constexpr std::size_t bytes = std::size_t{sanitized() ? 2 : 16} << 20;
  const std::size_t before = resident_bytes();
  Opened opened;
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

// A flood by somebody who knows when each key will be at rest, and comes a nanosecond earlier,
// then, or a nanosecond later, with new keys or those that were refused before: whoever is granted
// something would have been granted it by a table without end.
TEST(Flood, ForgivesNobodyHoweverItIsTimed) {
  constexpr int victims = 40;
  constexpr Layout layout{.rows = 8, .sharing_rows = 1};
  const Rule rule{.limit = bucket(1, hours{1}, 5), .when_full = WhenFull::deny};
  const Rule flood{.limit = bucket(1, minutes{10}, 3), .identity = 2};
  Table table(layout);
  std::vector<core::State> endless(victims);
  std::mt19937 random(17);
  Nanos now{0};
  int granted = 0;
  for (int round = 0; round < scaled(2'000); ++round) {
    const int first = random() % 2 == 0 ? 0 : round * 100;
    const int size = round % 3 * 150;
    for (int i = first; i < first + size; ++i) (void)take(table, flood, nth(i), now);
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
  EXPECT_GT(granted, scaled(2'000));
  EXPECT_GT(table.use(kStart + now).forgotten, static_cast<std::uint64_t>(scaled(2'000)));
  EXPECT_GT(table.use(kStart + now).denied, 0u) << "there must have been a lack of room";
}

}  // namespace
}  // namespace weir::store
