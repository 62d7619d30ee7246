#pragma once

#include <chrono>

#include "net/descriptor.h"

namespace weir::net {

// What is waited for on a descriptor.
enum class Interest {
  none,
  read,
  write,
  both,
  gone,  // that the peer will send nothing more, though nobody reads
  news,  // to read, but only when more has come than was there the last time: see has_ended
};

// Who is told that it has come.
class Watcher {
 public:
  virtual void on_ready() = 0;
  // There was no memory for what `on_ready` had to do, and it did only some of it.
  virtual void on_out_of_memory() noexcept = 0;

 protected:
  ~Watcher() = default;
};

// The system's word about which descriptors are ready. Whoever leaves something undone hears of it
// again, so nobody has to ask in vain whether there is more: that question is what an event loop of
// a library spends on each message, and the reason for not using one. (Where most of what comes is
// read whole, even that the system looks whether something was left is saved: Interest::news.)
// For one thread, but for `wake`.
class Poller {
 public:
  Poller();

  // From now on `watcher` is told, until the descriptor is closed.
  void add(int fd, Interest interest, Watcher& watcher);
  // The same; false if the system has no room for it.
  bool try_add(int fd, Interest interest, Watcher& watcher);
  void change(int fd, Interest interest, Watcher& watcher);

  void remove(int fd);

  // Waits until something is ready or the time is up, and tells those it concerns. A watcher may
  // close its own descriptor meanwhile, but not be destroyed. Whether there was somebody to tell.
  bool wait(std::chrono::milliseconds longest);

  // To be asked by a watcher that is being told: whether its peer has said that nothing more will
  // come behind what can be read. For `news` that is no news a second time.
  bool has_ended() const { return ended_; }

  // Is readable when `wait` would not have to: for a poll of somebody else's.
  int descriptor() const { return epoll_.fd(); }

  // Ends a `wait`, or else the next one. From any thread.
  void wake();

 private:
  Descriptor epoll_;
  Descriptor wake_up_;
  bool ended_ = false;
};

}  // namespace weir::net
