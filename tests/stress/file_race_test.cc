// Several processes open one state file at the same time.

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "file.h"

namespace weir::store {
namespace {

// Each thread that opens the file takes one permit and closes it; the others are refused. If two
// had it open at once, or one had created a new file over that of another, permits would be
// missing.
void race(int openers, bool resize) {
  for (int round = 0; round < scaled(150); ++round) {
    const Folder folder;
    const std::string path = folder / "state";
    const Rule rule{.limit = bucket(1, hours{1}, 1000)};
    std::atomic<int> taken = 0;
    std::atomic<int> owners = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < openers; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 6; ++i) {
          const auto size = static_cast<std::size_t>(resize ? 1 + (t + i) % 2 : 1);
          const FileTable file = open_file(path, size * 32 << 10, 4 << 10);
          if (!file) continue;
          ASSERT_EQ(owners.fetch_add(1), 0);
          taken += take(*file, rule, "alice", Nanos{0}) ? 1 : 0;
          owners.fetch_sub(1);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    const FileTable file = open_file(path, 32 << 10, 4 << 10);
    ASSERT_TRUE(file) << file.error;
    ASSERT_EQ(peek(*file, rule, "alice", Nanos{0}).remaining, 1000 - taken) << "round " << round;
    ASSERT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1)
        << "nothing set aside, nothing left over";
  }
}

TEST(FileRace, OneOfManyThreadsCreatesTheFile) { race(4, false); }
TEST(FileRace, OneOfManyThreadsResizesTheFile) { race(4, true); }

}  // namespace
}  // namespace weir::store
