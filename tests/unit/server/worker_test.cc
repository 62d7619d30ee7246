#include "server/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace weir::server {
namespace {

using testing::ElementsAre;

TEST(Worker, RunsJobsInTheirOrderAndAllBeforeItEnds) {
  std::vector<int> done;
  {
    Worker worker;
    for (const int job : {1, 2, 3}) worker.run([&done, job] { done.push_back(job); });
  }
  EXPECT_THAT(done, ElementsAre(1, 2, 3));
}

TEST(Worker, RunsWhatAJobAddsBeforeItEnds) {
  bool is_done = false;
  {
    Worker worker;
    worker.run([&] { worker.run([&] { is_done = true; }); });
  }
  EXPECT_TRUE(is_done);
}

TEST(Worker, RunsOneJobAtATime) {
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  {
    Worker worker;
    for (int i = 0; i < 100; ++i) {
      worker.run([&] {
        most = std::max(most.load(), running.fetch_add(1) + 1);
        std::this_thread::yield();
        running.fetch_sub(1);
      });
    }
  }
  EXPECT_EQ(most, 1);
}

}  // namespace
}  // namespace weir::server
