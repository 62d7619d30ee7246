#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace weir::server {

// A thread for what may block: writing files to disk, looking names up. Runs jobs one after the
// other, in the order in which they came. Thread-safe.
class Worker {
 public:
  Worker();
  // Runs all jobs that have come, and waits for the last one.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void run(std::function<void()> job);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace weir::server
