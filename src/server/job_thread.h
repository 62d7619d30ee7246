#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace weir::server {

// A thread for jobs that may block: writing files, resolving names. Runs them one at a time, in
// the order in which they were added. Thread-safe.
class JobThread {
 public:
  JobThread();
  // Runs all jobs that are left, then joins the thread.
  ~JobThread();
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;

  void run(std::function<void()> job);

 private:
  void run_jobs();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace weir::server
