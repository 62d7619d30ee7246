// The buddy allocator: blocks never overlap, and free blocks merge again.

#include "store/memory/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

namespace weir::store {
namespace {

constexpr std::size_t kUnit = Arena::kMinBlock;

struct Fixture {
  explicit Fixture(std::size_t units) : memory(units * kUnit), arena(memory) {}

  // Allocates with the purpose that may use the whole region.
  std::optional<Arena::Handle> allocate(std::size_t bytes, std::uint32_t owner) {
    return arena.allocate(bytes, owner, Arena::Purpose::overflow);
  }

  std::vector<std::byte> memory;
  Arena arena;
};

// Blocks in use: the requested size in bytes, by handle.
using Blocks = std::map<Arena::Handle, std::size_t>;

std::size_t units_of(std::size_t bytes) { return Arena::block_size(bytes) / kUnit; }

bool overlap(const Blocks& blocks) {
  std::size_t end = 0;
  for (const auto& [handle, bytes] : blocks) {
    if (handle - 1 < end) return true;
    end = handle - 1 + units_of(bytes);
  }
  return false;
}

TEST(Arena, RoundsUpToPowersOfTwo) {
  EXPECT_EQ(Arena::block_size(0), kUnit);
  EXPECT_EQ(Arena::block_size(1), kUnit);
  EXPECT_EQ(Arena::block_size(kUnit), kUnit);
  EXPECT_EQ(Arena::block_size(kUnit + 1), 2 * kUnit);
  EXPECT_EQ(Arena::block_size(5 * kUnit), 8 * kUnit);
}

// During a restore no block is free, since blocks in use have to be marked first.
TEST(Arena, AllocatesNothingBeforeTheRestoreIsFinished) {
  Fixture f(8);
  EXPECT_FALSE(f.allocate(1, 0));
  f.arena.finish_restore();
  EXPECT_TRUE(f.allocate(1, 0));
}

TEST(Arena, AllocatesItsWholeRegion) {
  Fixture f(8);
  f.arena.finish_restore();
  std::set<Arena::Handle> handles;
  for (int i = 0; i < 8; ++i) handles.insert(f.allocate(kUnit, 0).value());
  EXPECT_EQ(handles.size(), 8u);
  EXPECT_EQ(f.arena.used(), 8 * kUnit);
  EXPECT_FALSE(f.allocate(1, 0));
}

// The region need not be a power of two.
TEST(Arena, UsesARegionOfAnySizeToItsEnd) {
  for (std::size_t units = 0; units < 70; ++units) {
    Fixture f(units);
    f.arena.finish_restore();
    std::size_t given = 0;
    while (f.allocate(1, 0)) ++given;
    EXPECT_EQ(given, units);
  }
}

// A flood of new keys leaves memory for records that grow, and both leave some for overflow states.
TEST(Arena, ReservesMemoryForGrowthAndOverflow) {
  using Purpose = Arena::Purpose;
  Fixture f(160);
  f.arena.finish_restore();
  const auto fill = [&](Purpose purpose) {
    int given = 0;
    while (f.arena.has_room(kUnit, purpose)) given += f.arena.allocate(kUnit, 0, purpose) ? 1 : 0;
    EXPECT_FALSE(f.arena.allocate(kUnit, 0, purpose));
    return given;
  };
  EXPECT_EQ(fill(Purpose::new_key), 140);
  EXPECT_FALSE(f.arena.has_room(11 * kUnit, Purpose::growth));
  EXPECT_EQ(fill(Purpose::growth), 10);
  EXPECT_EQ(fill(Purpose::new_key), 0);
  EXPECT_EQ(fill(Purpose::overflow), 10);
}

TEST(Arena, AllocatesNoBlockLargerThanItself) {
  Fixture f(8);
  f.arena.finish_restore();
  EXPECT_FALSE(f.allocate(8 * kUnit + 1, 0));
  EXPECT_FALSE(f.allocate(std::size_t{1} << 62, 0));
  EXPECT_TRUE(f.allocate(8 * kUnit, 0));
}

TEST(Arena, ReportsTheOwnersOfAllBlocksInTurn) {
  Fixture f(16);
  f.arena.finish_restore();
  EXPECT_FALSE(f.arena.next_owner());
  std::vector<Arena::Handle> handles;
  for (std::uint32_t i = 0; i < 4; ++i) {
    handles.push_back(f.allocate(2 * kUnit, 100 + i).value());
  }
  f.arena.set_owner(handles[1], 777);
  f.arena.free(handles[3], 2 * kUnit);
  std::multiset<std::uint32_t> owners;
  for (int i = 0; i < 6; ++i) owners.insert(f.arena.next_owner().value());
  EXPECT_EQ(owners, (std::multiset<std::uint32_t>{100, 100, 102, 102, 777, 777}));
}

// No such block, a block across the end, an overlapping block, a misaligned block.
TEST(Arena, RefusesToMarkImpossibleBlocksInUse) {
  Fixture f(16);
  EXPECT_FALSE(f.arena.mark_in_use(0, 1, 0));
  EXPECT_FALSE(f.arena.mark_in_use(17, 1, 0));
  EXPECT_FALSE(f.arena.mark_in_use(UINT32_MAX, 1, 0));
  EXPECT_FALSE(f.arena.mark_in_use(2, 2 * kUnit, 0));
  EXPECT_FALSE(f.arena.mark_in_use(9, 16 * kUnit, 0));
  EXPECT_FALSE(f.arena.mark_in_use(1, std::size_t{1} << 50, 0));
  EXPECT_TRUE(f.arena.mark_in_use(5, 4 * kUnit, 0));
  EXPECT_FALSE(f.arena.mark_in_use(5, 4 * kUnit, 0));
  EXPECT_FALSE(f.arena.mark_in_use(7, kUnit, 0));
  EXPECT_FALSE(f.arena.mark_in_use(1, 8 * kUnit, 0));
  EXPECT_TRUE(f.arena.mark_in_use(1, 4 * kUnit, 0));
  EXPECT_EQ(f.arena.used(), 8 * kUnit);
}

// Compares random allocations with a list of blocks: no overlap, no write by the arena to blocks in
// use, the right sum, and one free block in the end.
TEST(Arena, NeverAllocatesTheSameMemoryTwice) {
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    const std::size_t units = 1 + random() % 300;
    Fixture f(units);
    f.arena.finish_restore();
    Blocks blocks;
    std::size_t used = 0;
    const auto content = [](Arena::Handle handle) { return static_cast<std::byte>(handle * 37); };
    for (int i = 0; i < 2000; ++i) {
      if (random() % 2 == 0) {
        const std::size_t bytes = 1 + random() % (random() % 8 == 0 ? 40 * kUnit : 3 * kUnit);
        const auto handle = f.allocate(bytes, 0);
        if (!handle) continue;
        ASSERT_TRUE(f.arena.contains(*handle));
        ASSERT_LE(*handle - 1 + units_of(bytes), units);
        ASSERT_TRUE(blocks.emplace(*handle, bytes).second);
        std::fill_n(f.arena.at(*handle), units_of(bytes) * kUnit, content(*handle));
        used += units_of(bytes);
      } else if (!blocks.empty()) {
        const auto block =
            std::next(blocks.begin(), static_cast<std::ptrdiff_t>(random() % blocks.size()));
        const std::byte* at = f.arena.at(block->first);
        ASSERT_TRUE(std::all_of(at, at + units_of(block->second) * kUnit,
                                [&](std::byte b) { return b == content(block->first); }));
        f.arena.free(block->first, block->second);
        used -= units_of(block->second);
        blocks.erase(block);
      }
      ASSERT_FALSE(overlap(blocks));
      ASSERT_EQ(f.arena.used(), used * kUnit);
    }
    for (const auto& [handle, bytes] : blocks) f.arena.free(handle, bytes);
    EXPECT_EQ(f.arena.used(), 0u);
    std::size_t largest = 1;
    while (largest * 2 <= units) largest *= 2;
    EXPECT_TRUE(f.allocate(largest * kUnit, 0)) << "of " << units;
  }
}

// After a restart, new blocks fill every gap between the blocks that were marked in use.
TEST(Arena, AllocatesAroundBlocksThatWereInUse) {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    const std::size_t units = 1 + random() % 100;
    Blocks blocks;
    {
      Fixture before(units);
      before.arena.finish_restore();
      for (int i = 0; i < 60; ++i) {
        const std::size_t bytes = 1 + random() % (4 * kUnit);
        if (const auto handle = before.allocate(bytes, 0)) blocks[*handle] = bytes;
        if (random() % 3 == 0 && !blocks.empty()) {
          before.arena.free(blocks.begin()->first, blocks.begin()->second);
          blocks.erase(blocks.begin());
        }
      }
    }
    Fixture after(units);
    std::size_t used = 0;
    for (const auto& [handle, bytes] : blocks) {
      ASSERT_TRUE(after.arena.mark_in_use(handle, bytes, 0));
      used += units_of(bytes);
    }
    after.arena.finish_restore();
    EXPECT_EQ(after.arena.used(), used * kUnit);
    while (const auto handle = after.allocate(1, 0)) {
      ASSERT_TRUE(blocks.emplace(*handle, 1).second);
    }
    ASSERT_FALSE(overlap(blocks));
    EXPECT_EQ(after.arena.used(), units * kUnit);
    // All blocks merge again, including those that were marked in use.
    for (const auto& [handle, bytes] : blocks) after.arena.free(handle, bytes);
    std::size_t largest = 1;
    while (largest * 2 <= units) largest *= 2;
    EXPECT_TRUE(after.allocate(largest * kUnit, 0));
  }
}

}  // namespace
}  // namespace weir::store
