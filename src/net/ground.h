#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/descriptor.h"
#include "net/memory.h"
#include "net/poller.h"
#include "net/protocol.h"
#include "net/timers.h"

namespace weir::net {

// An object that is destroyed at the end of the loop's iteration, when no function of it can be on
// the stack (LoopContext::defer_delete).
class Mortal {
 public:
  virtual ~Mortal() = default;

 private:
  friend struct Ground;
  std::unique_ptr<Mortal> next_deferred_;  // intrusive list: needs no allocation
};

// The services of a loop for handlers that manage their own connections. For the loop's thread.
struct Ground {
  Poller& poller;
  LoopMemory& memory;
  Timers timers{};
  std::unique_ptr<Mortal> deferred{};  // head of the list to destroy at the end of the iteration
  // Read buffer, shared: valid while one event is handled.
  std::vector<char> input = std::vector<char>(64 << 10);
  std::size_t left = 0;  // accepted connections that have closed since the loop last counted

  void bury(std::unique_ptr<Mortal> mortal) noexcept {
    mortal->next_deferred_ = std::move(deferred);
    deferred = std::move(mortal);
  }
  // Destroys the deferred objects one by one. A destructor may defer others.
  void delete_deferred() noexcept {
    while (deferred) deferred = std::exchange(deferred->next_deferred_, nullptr);
  }
};

// Manages the connections that a listener accepts on one loop. For the loop's thread.
class Resident {
 public:
  virtual ~Resident() = default;

  // Takes over an accepted, non-blocking socket. The handler adds one to LoopContext::closed_count
  // when the connection has closed.
  virtual void admit(Descriptor socket, const Peer& peer) = 0;
  // False if it can take no more connections. New ones wait in the kernel's accept queue meanwhile.
  virtual bool has_room() const { return true; }
  // Called several times a second.
  virtual void look_around() {}
  // Graceful shutdown: no more sockets come; finishes requests under way.
  virtual void shut_down() = 0;
  // True if all connections are closed.
  virtual bool is_alone() const = 0;
};

}  // namespace weir::net
