#pragma once

#include <chrono>

#include "net/file_descriptor.h"

namespace weir::net {

// The epoll events to wait for on a descriptor.
enum class Interest {
  none,
  read,
  write,
  both,
  hangup,     // only that the peer has shut down its write side (EPOLLRDHUP)
  read_edge,  // readable, edge-triggered: reported once per arrival, see peer_hung_up
};

// Receives the events of one descriptor.
class EventHandler {
 public:
  virtual void on_ready() = 0;
  // An allocation has failed in on_ready, which was left half done.
  virtual void on_out_of_memory() noexcept = 0;

 protected:
  ~EventHandler() = default;
};

// An epoll instance. Level-triggered by default: unread input is reported again, so a handler reads
// once and need not read again until EAGAIN. Event loop libraries spend that extra system call on
// each message, which is the reason for not using one. Interest::read_edge also saves the kernel's
// check for unread input, for connections that mostly read all that is there. For one thread,
// except wake().
class Poller {
 public:
  Poller();

  // Reports events to `handler` from now on, until the descriptor is closed. Throws
  // std::system_error.
  void add(int fd, Interest interest, EventHandler& handler);
  // The same, but returns false if the system refuses.
  bool try_add(int fd, Interest interest, EventHandler& handler);
  void change(int fd, Interest interest, EventHandler& handler);

  void remove(int fd);

  // Waits for events up to `timeout` and dispatches them. A handler may close its own descriptor
  // meanwhile, but not be destroyed. Returns true if there was an event.
  bool wait(std::chrono::milliseconds timeout);

  // During on_ready: true if the event says that the peer has shut down its write side or the
  // connection is broken. Edge-triggered epoll reports that only once.
  bool peer_hung_up() const { return peer_hung_up_; }

  // Is readable when events are pending: for nesting in another event loop.
  int descriptor() const { return epoll_.fd(); }

  // Makes the current wait() return, or else the next one. Thread-safe.
  void wake();

 private:
  FileDescriptor epoll_;
  FileDescriptor wake_event_;
  bool peer_hung_up_ = false;
};

}  // namespace weir::net
