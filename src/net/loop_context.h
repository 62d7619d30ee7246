#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/file_descriptor.h"
#include "net/memory.h"
#include "net/poller.h"
#include "net/protocol.h"
#include "net/timers.h"

namespace weir::net {

// An object that is destroyed at the end of the loop's iteration, when no function of it can be on
// the stack (LoopContext::defer_delete).
class DeferredDelete {
 public:
  virtual ~DeferredDelete() = default;

 private:
  friend struct LoopContext;
  std::unique_ptr<DeferredDelete> next_deferred_;  // intrusive list: needs no allocation
};

// The services of a loop for handlers that manage their own connections. For the loop's thread.
struct LoopContext {
  Poller& poller;
  LoopMemory& memory;
  Timers timers{};
  std::unique_ptr<DeferredDelete>
      deferred{};  // head of the list to destroy at the end of the iteration
  // Read buffer, shared: valid while one event is handled.
  std::vector<char> input = std::vector<char>(64 << 10);
  std::size_t closed_count =
      0;  // accepted connections that have closed since the loop last counted

  void defer_delete(std::unique_ptr<DeferredDelete> object) noexcept {
    object->next_deferred_ = std::move(deferred);
    deferred = std::move(object);
  }
  // Destroys the deferred objects one by one. A destructor may defer others.
  void delete_deferred() noexcept {
    while (deferred) deferred = std::exchange(deferred->next_deferred_, nullptr);
  }
};

// Manages the connections that a listener accepts on one loop. For the loop's thread.
class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;

  // Takes over an accepted, non-blocking socket. The handler adds one to LoopContext::closed_count
  // when the connection has closed.
  virtual void on_accept(FileDescriptor socket, const Peer& peer) = 0;
  // False if it can take no more connections. New ones wait in the kernel's accept queue meanwhile.
  virtual bool can_accept() const { return true; }
  // Called several times a second.
  virtual void on_tick() {}
  // Graceful shutdown: no more sockets come; finishes requests under way.
  virtual void shut_down() = 0;
  // True if all connections are closed.
  virtual bool is_empty() const = 0;
};

}  // namespace weir::net
