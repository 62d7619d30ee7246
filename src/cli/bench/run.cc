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

#include "cli/bench/worker.h"

namespace weir::cli::bench {

namespace {

constexpr int kProgressMillis = 250;

using Workers = std::vector<std::unique_ptr<Worker>>;

// Signals that would end the process, as something to be read. As long as this lives.
class Signals {
 public:
  Signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM}) sigaddset(&set, signal);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
    descriptor_ = net::Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
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
  net::Descriptor descriptor_;
};

// As many connections as the system can be talked into.
void allow_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

Ran sum_of(const Workers& workers, Nanos now) {
  Ran ran;
  for (const auto& worker : workers) ran.tally.merge(worker->tally());
  const bool waits = ran.tally.unanswered > 0 || ran.tally.unsent > 0;
  ran.elapsed = waits ? now : ran.tally.last_answer;
  return ran;
}

// The threads of a run.
class Threads {
 public:
  explicit Threads(const Workers& workers) : done_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
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

  // Until all have ended.
  void wait(const Signals& signals, const std::function<void(Nanos)>& tick) {
    std::uint64_t ended = 0;
    while (ended < threads_.size()) {
      std::array<pollfd, 2> wait{{{done_.fd(), POLLIN, 0}, {signals.fd(), POLLIN, 0}}};
      if (poll(wait.data(), wait.size(), kProgressMillis) == 0) tick(now());
      std::uint64_t more = 0;
      if (read(done_.fd(), &more, sizeof more) == sizeof more) ended += more;
      if (signals.take_one()) stop_ = stop_ == Stop::no ? Stop::ask_no_more : Stop::at_once;
    }
  }

  Nanos now() const { return std::chrono::steady_clock::now() - start_; }
  bool interrupted() const { return stop_ != Stop::no; }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::atomic<Stop> stop_ = Stop::no;
  net::Descriptor done_;
  std::vector<std::thread> threads_;
};

}  // namespace

Result<Ran, Error> run(const Plan& plan, Asked* asked,
                       const std::function<void(const Ran&)>& progress) {
  const Signals signals;
  allow_descriptors();
  const auto address = net::resolve(plan.target.host, plan.target.port);
  if (!address) {
    return Error{fmt::format("cannot find {}: {}", plan.target.text(), address.error().message)};
  }
  const Messages messages(plan);
  Workers workers;
  for (std::size_t i = 0; i < plan.threads; ++i) {
    workers.push_back(std::make_unique<Worker>(plan, messages, *address, i, asked));
    if (auto error = workers.back()->connect()) return *std::move(error);
  }
  Threads threads(workers);
  threads.wait(signals, [&](Nanos now) {
    if (!progress) return;
    Ran so_far = sum_of(workers, now);
    so_far.elapsed = now;
    progress(so_far);
  });
  Ran ran = sum_of(workers, threads.now());
  ran.interrupted = threads.interrupted();
  return ran;
}

}  // namespace weir::cli::bench
