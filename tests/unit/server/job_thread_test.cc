#include "server/job_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace weir::server {
namespace {

using testing::ElementsAre;

TEST(JobThread, RunsAllJobsInOrderBeforeItEnds) {
  std::vector<int> done;
  {
    JobThread thread;
    for (const int job : {1, 2, 3}) thread.run([&done, job] { done.push_back(job); });
  }
  EXPECT_THAT(done, ElementsAre(1, 2, 3));
}

TEST(JobThread, RunsAJobAddedByAJobBeforeItEnds) {
  bool is_done = false;
  {
    JobThread thread;
    thread.run([&] { thread.run([&] { is_done = true; }); });
  }
  EXPECT_TRUE(is_done);
}

TEST(JobThread, RunsOneJobAtATime) {
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  {
    JobThread thread;
    for (int i = 0; i < 100; ++i) {
      thread.run([&] {
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
