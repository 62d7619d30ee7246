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

// What else lives on a loop's thread and has something to do with the others there.
class Companion {
 public:
  virtual ~Companion() = default;

  // Becomes readable when there is something to do.
  virtual int descriptor() const noexcept = 0;
  virtual void run_ready() = 0;
  // Everybody has had a turn.
  virtual void end_turn() = 0;
};

// Runs functions on the thread of a loop. Thread-safe. Functions that come when the loop has ended
// are dropped.
class Mailbox {
 public:
  virtual void post(std::function<void()> function) = 0;

 protected:
  ~Mailbox() = default;
};

// The one of the loop that this thread runs; none: it runs no loop.
std::shared_ptr<Mailbox> mailbox_of_this_thread();

struct LoopOptions {
  int threads = 1;
  std::size_t most_connections = 20'000;
  // Bytes that all connections may hold together in buffers: see MemoryBudget.
  std::size_t connection_memory = std::size_t{64} << 20;
  // For how long a thread that has had work looks for more before it sleeps: to be woken costs who
  // asks, too. Costs processor time.
  std::chrono::microseconds spin{0};
  // How long a thread that has had work does not listen at all: what comes meanwhile is served
  // together, and nobody has to wake the thread for each of it.
  std::chrono::microseconds gather{0};
  // Makes each thread's, on that thread; none if it is empty.
  std::function<std::unique_ptr<Companion>()> companion{};
};

struct LoopCounts {
  std::uint64_t accepted = 0;
  std::uint64_t turned_away = 0;  // there were too many
  std::uint64_t open = 0;
};

// Threads that each serve their own connections: the system deals newcomers out to them, and
// nothing is handed from one to another.
class Loops {
 public:
  explicit Loops(const LoopOptions& options);
  ~Loops();
  Loops(const Loops&) = delete;
  Loops& operator=(const Loops&) = delete;

  // Binds a door, before `start`. Port 0 means any that is free; the port bound is returned.
  // Whether that could be done, without doing it.
  static std::optional<Error> cannot_bind(const std::string& host, std::uint16_t port);
  Result<std::uint16_t, Error> bind(const std::string& host, std::uint16_t port, Door door);

  // From now on all doors are open.
  void start();

  // Takes no newcomers, lets everybody finish what is under way, and returns when all are gone or
  // the time is up.
  void stop(std::chrono::milliseconds grace);

  LoopCounts counts() const;
  MemoryCounts memory() const;
  // See MemoryBudget. For one thread at a time.
  std::size_t freed_since_peak();

  // Whether every loop has come around since this was last true. For one asker: a loop that hangs
  // makes it false until it goes on.
  bool all_came_around();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::net
