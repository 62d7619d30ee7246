#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "net/memory.h"
#include "net/protocol.h"
#include "weir/result.h"

namespace weir::net {

// An I/O source besides the sockets that runs on a loop's thread, for instance a link to a store.
class LoopService {
 public:
  virtual ~LoopService() = default;

  // Becomes readable when run_ready() has work to do. The loop polls it.
  virtual int descriptor() const noexcept = 0;
  virtual void run_ready() = 0;
  // Called at the end of each iteration: sends the requests that connections have made, together.
  virtual void end_iteration() = 0;
};

// Runs functions on a loop's thread. Thread-safe. Functions that are posted after the loop has
// ended are dropped.
class Mailbox {
 public:
  virtual void post(std::function<void()> function) = 0;

 protected:
  ~Mailbox() = default;
};

// The mailbox of the loop that this thread runs; null if it runs none.
std::shared_ptr<Mailbox> mailbox_of_this_thread();

struct LoopOptions {
  int threads = 1;
  std::size_t max_connections = 20'000;
  // Bytes that all connections may hold in buffers together: see MemoryBudget.
  std::size_t connection_memory = std::size_t{64} << 20;
  // How long a thread that has had work busy-polls before it sleeps. Waking a thread also costs the
  // sender time; spinning costs CPU time.
  std::chrono::microseconds spin{0};
  // How long a thread that has had work sleeps without polling. Input that arrives meanwhile is
  // served as one batch, without a wakeup for each message.
  std::chrono::microseconds gather{0};
  // Makes the service of each loop, on the loop's thread. Empty: none.
  std::function<std::unique_ptr<LoopService>()> make_service{};
};

struct LoopCounts {
  std::uint64_t accepted = 0;
  std::uint64_t rejected = 0;  // over the limit of connections
  std::uint64_t open = 0;
};

// Event loops, one thread each. Every loop listens on every port (SO_REUSEPORT): the kernel spreads
// new connections over them, and a connection stays on its loop.
class Loops {
 public:
  explicit Loops(const LoopOptions& options);
  ~Loops();
  Loops(const Loops&) = delete;
  Loops& operator=(const Loops&) = delete;

  // Why bind() would fail; nothing if it would not.
  static std::optional<Error> cannot_bind(const std::string& host, std::uint16_t port);
  // Binds a listener, before `start`. Port 0 means any free port; returns the port that was bound.
  Result<std::uint16_t, Error> bind(const std::string& host, std::uint16_t port,
                                    ListenerOptions door);

  // Starts the threads; all listeners accept from now on.
  void start();

  // Graceful shutdown: closes the listeners, lets requests under way finish, and returns when all
  // connections are closed or `grace` has passed.
  void stop(std::chrono::milliseconds grace);

  LoopCounts counts() const;
  MemoryCounts memory() const;
  // See MemoryBudget. For one thread at a time.
  std::size_t freed_since_peak();

  // True if every loop has completed an iteration with a tick since this last returned true. A loop
  // that hangs keeps it false. For one caller.
  bool all_loops_progressed();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::net
