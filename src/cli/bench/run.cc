#include "cli/bench/run.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "cli/bench/load_worker.h"

namespace weir::cli::bench {

namespace {

constexpr int kProgressMillis = 250;

using LoadWorkers = std::vector<std::unique_ptr<LoadWorker>>;

// Blocks SIGINT and SIGTERM for its lifetime, and makes them readable from a signalfd.
class Signals {
 public:
  Signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM}) sigaddset(&set, signal);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
    descriptor_ = net::FileDescriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~Signals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const { return descriptor_.fd(); }
  bool take_one() const {
    signalfd_siginfo info{};
    return read(fd(), &info, sizeof info) == sizeof info;
  }

 private:
  sigset_t before_{};
  net::FileDescriptor descriptor_;
};

// Raises the limit of open descriptors to the hard limit: each connection needs one.
void allow_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

RunResult sum_of(const LoadWorkers& workers, Nanos now) {
  RunResult result;
  for (const auto& worker : workers) result.tally.merge(worker->tally());
  const bool waits = result.tally.unanswered > 0 || result.tally.unsent > 0;
  result.elapsed = waits ? now : result.tally.last_answer;
  return result;
}

// The threads of a run; the destructor joins them.
class Threads {
 public:
  explicit Threads(const LoadWorkers& workers) : done_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    for (const auto& worker : workers) {
      threads_.emplace_back([this, &worker] {
        worker->run(start_, stop_);
        const std::uint64_t one = 1;
        if (write(done_.fd(), &one, sizeof one) != sizeof one) std::terminate();
      });
    }
  }
  ~Threads() {
    for (std::thread& thread : threads_) thread.join();
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  // Blocks until all threads have ended; calls `tick` every kProgressMillis without an event.
  void wait(const Signals& signals, const std::function<void(Nanos)>& tick) {
    std::uint64_t ended = 0;
    while (ended < threads_.size()) {
      std::array<pollfd, 2> wait{{{done_.fd(), POLLIN, 0}, {signals.fd(), POLLIN, 0}}};
      if (poll(wait.data(), wait.size(), kProgressMillis) == 0) tick(now());
      std::uint64_t more = 0;
      if (read(done_.fd(), &more, sizeof more) == sizeof more) ended += more;
      if (signals.take_one())
        stop_ = stop_ == StopMode::no ? StopMode::finish_requests : StopMode::at_once;
    }
  }

  Nanos now() const { return std::chrono::steady_clock::now() - start_; }
  bool interrupted() const { return stop_ != StopMode::no; }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::atomic<StopMode> stop_ = StopMode::no;
  net::FileDescriptor done_;
  std::vector<std::thread> threads_;
};

}  // namespace

Result<RunResult, Error> run(const BenchPlan& plan, TakesPerKey* takes_per_key,
                             const std::function<void(const RunResult&)>& progress) {
  const Signals signals;
  allow_descriptors();
  const auto address = net::resolve(plan.target.host, plan.target.port);
  if (!address) {
    return Error{fmt::format("cannot resolve the address {}: {}", plan.target.text(),
                             address.error().message)};
  }
  const Messages messages(plan);
  LoadWorkers workers;
  for (std::size_t i = 0; i < plan.threads; ++i) {
    workers.push_back(std::make_unique<LoadWorker>(plan, messages, *address, i, takes_per_key));
    if (auto error = workers.back()->connect()) return *std::move(error);
  }
  Threads threads(workers);
  threads.wait(signals, [&](Nanos now) {
    if (!progress) return;
    RunResult progress_so_far = sum_of(workers, now);
    progress_so_far.elapsed = now;
    progress(progress_so_far);
  });
  RunResult result = sum_of(workers, threads.now());
  result.interrupted = threads.interrupted();
  return result;
}

}  // namespace weir::cli::bench
