// A flood of keys: what it does to memory, and what a call costs meanwhile.

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <iostream>

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

std::vector<Fingerprint> fingerprints(const Rule& rule, const char* what, int count) {
  std::vector<Fingerprint> keys;
  for (int i = 0; i < count; ++i) keys.push_back(rule.key(what + std::to_string(i)));
  return keys;
}

// How long a call takes, on average, if the same keys in the same order are asked for.
double nanos_per_take(Table& table, const Rule& rule, const std::vector<Fingerprint>& keys,
                      Instant now) {
  const auto before = std::chrono::steady_clock::now();
  const auto& limit = std::get<core::Bucket>(rule.limit);
  for (const Fingerprint& key : keys) (void)table.take_bucket(limit, rule.item(key), now);
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - before;
  return spent.count() / static_cast<double>(keys.size());
}

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

// No assertion, but figures: what a take costs when the table is calm, and when it is full and
// flooded, for keys that are known and for newcomers. To be read from a Release build on a quiet
// machine.
TEST(Flood, TellsWhatItCosts) {
  constexpr Layout layout{.rows = sanitized() ? 1 << 10 : 1 << 15, .sharing_rows = 64};
  const int slots = static_cast<int>(layout.rows * Row::kSlots);
  const int calls = slots * 2 / 5;
  Rule rule{.limit = bucket(1, hours{1}, 1000)};
  const auto known = fingerprints(rule, "known ", calls);
  const auto fillers = fingerprints(rule, "filler ", 3 * slots);
  const auto flood = fingerprints(rule, "flood ", calls);
  std::cout << "ns per take, " << slots << " slots\n"
            << "calm: new, known | full: known, newcomers that share, are denied, pass\n";
  for (int round = 0; round < scaled(7); ++round) {
    Table table(layout);
    std::cout << static_cast<int>(nanos_per_take(table, rule, known, kStart)) << " "
              << static_cast<int>(nanos_per_take(table, rule, known, kStart)) << " | ";
    (void)nanos_per_take(table, rule, fillers, kStart);
    std::cout << static_cast<int>(nanos_per_take(table, rule, known, kStart)) << " ";
    for (const WhenFull when_full : {WhenFull::share, WhenFull::deny, WhenFull::allow}) {
      rule.when_full = when_full;
      std::cout << static_cast<int>(nanos_per_take(table, rule, flood, kStart)) << " ";
    }
    rule.when_full = WhenFull::share;
    std::cout << "\n";
  }
}

}  // namespace
}  // namespace weir::store
