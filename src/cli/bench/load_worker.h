#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cli/bench/bench_connection.h"
#include "cli/bench/load_generator.h"
#include "cli/bench/message.h"
#include "net/file_descriptor.h"
#include "net/sockets.h"

namespace weir::cli::bench {

// How a run is ended early.
enum class StopMode : int {
  no,
  finish_requests,  // sends nothing more, waits for missing replies
  at_once,
};

// The connections of one thread, and its epoll loop.
class LoadWorker {
 public:
  LoadWorker(const BenchPlan& plan, const Messages& messages, const net::SocketAddress& address,
             std::size_t thread, TakesPerKey* takes_per_key);

  // Opens all connections, and blocks until they are established. Call it before `run`.
  std::optional<Error> connect();

  // Sends and receives until the plan is done, all connections are lost, or `stop` is set.
  void run(std::chrono::steady_clock::time_point start, const std::atomic<StopMode>& stop);

  // The counts so far. Thread-safe.
  Tally tally() const;

 private:
  struct ConnectionSlot {
    BenchConnection connection;
    bool queued = false;         // in `ready_`
    bool has_unsent = false;     // in `unsent_`
    bool watches_write = false;  // epoll watches it for EPOLLOUT
  };

  Nanos now() const;
  void watch(std::size_t index, bool is_new);
  void open(std::size_t index, Nanos now);
  void drop(std::size_t index, const BenchConnection::ConnectionError& problem, Nanos now);
  void offer(std::size_t index);
  void send_due(Nanos now);
  void flush(Nanos now);
  void on_ready(std::size_t index, std::uint32_t events, Nanos now);
  void check_timeouts(Nanos now);
  bool finished(Nanos now, StopMode stop) const;
  void finish(Nanos now);
  void wait_for_events(Nanos now);

  const BenchPlan& plan_;
  const net::SocketAddress& address_;
  std::chrono::steady_clock::time_point start_{};
  LoadGenerator load_;
  net::FileDescriptor epoll_;
  std::vector<std::unique_ptr<ConnectionSlot>> slots_;
  std::deque<std::size_t>
      ready_;  // connections with room for a request; first: free for the longest time
  std::vector<std::size_t> unsent_;  // connections with bytes to send
  Nanos last_timeout_check_{0};
  mutable std::mutex mutex_;  // held while the tally changes
};

}  // namespace weir::cli::bench
