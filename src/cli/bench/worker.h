#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cli/bench/connection.h"
#include "cli/bench/load.h"
#include "cli/bench/message.h"
#include "net/descriptor.h"
#include "net/listen.h"

namespace weir::cli::bench {

// How a run ends before its time.
enum class Stop : int {
  no,
  ask_no_more,  // and wait for the answers that are missing
  at_once,
};

// One thread's connections, and the loop that keeps them busy.
class Worker {
 public:
  Worker(const Plan& plan, const Messages& messages, const net::Address& address,
         std::size_t thread, Asked* asked);

  // Opens all connections and waits until they are there. Before `run`.
  std::optional<Error> connect();

  // Sends and receives until the plan is carried out, everything is lost, or it is stopped.
  void run(std::chrono::steady_clock::time_point start, const std::atomic<Stop>& stop);

  // What came of it so far. From any thread.
  Tally tally() const;

 private:
  struct Slot {
    Connection connection;
    bool queued = false;         // in `ready_`
    bool touched = false;        // in `touched_`
    bool watches_write = false;  // epoll is to say when it can be written to
  };

  Nanos now() const;
  void watch(std::size_t index, bool is_new);
  void open(std::size_t index, Nanos now);
  void drop(std::size_t index, const Connection::Trouble& trouble, Nanos now);
  void offer(std::size_t index);
  void send_due(Nanos now);
  void flush(Nanos now);
  void on_ready(std::size_t index, std::uint32_t events, Nanos now);
  void end_the_patience(Nanos now);
  bool finished(Nanos now, Stop stop) const;
  void finish(Nanos now);
  void wait_for_events(Nanos now);

  const Plan& plan_;
  const net::Address& address_;
  std::chrono::steady_clock::time_point start_{};
  Load load_;
  net::Descriptor epoll_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::deque<std::size_t> ready_;     // those with room for a request, longest first
  std::vector<std::size_t> touched_;  // those with something to send
  Nanos looked_at_patience_{0};
  mutable std::mutex mutex_;  // held while the tally changes
};

}  // namespace weir::cli::bench
