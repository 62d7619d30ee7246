#include "server/job_thread.h"

#include <utility>

#include "base/out_of_memory.h"

namespace weir::server {

JobThread::JobThread() : thread_([this] { run_jobs(); }) {}

JobThread::~JobThread() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void JobThread::run(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

void JobThread::run_jobs() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    auto job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    // A job that runs out of memory is dropped: its caller times out.
    (void)catch_bad_alloc(job);
    job = nullptr;
    lock.lock();
  }
}

}  // namespace weir::server
