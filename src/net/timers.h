#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace weir::net {

class Timer;

// The alarms of one loop. For its thread.
class Timers {
 public:
  using Clock = std::chrono::steady_clock;

  // When somebody has to look again, at the latest.
  Clock::time_point next() const { return heap_.empty() ? Clock::time_point::max() : heap_[0].at; }

  // Rings all that are due.
  void run(Clock::time_point now);

 private:
  friend class Timer;
  struct Entry {
    Clock::time_point at;
    Timer* timer;
  };
  void add(Timer& timer, Clock::time_point at);
  void hasten(Timer& timer, Clock::time_point at);
  void remove(Timer& timer);
  void add_timer();
  void put(std::size_t place, const Entry& entry);
  void rise(std::size_t place);
  void sink(std::size_t place);

  std::vector<Entry> heap_;  // the earliest in front; with room for all timers
  std::size_t count_ = 0;    // of timers, set or not
};

// Rings once at a time that may be changed until then. It may be set anew while it rings, and be
// destroyed at any time but then. Most timers guard against what seldom happens and are put off
// again and again: putting off and cancelling costs a store, the heap learns of it when the old
// time has come. Setting it needs no memory.
class Timer {
 public:
  using Clock = Timers::Clock;

  // `timers` outlive it.
  Timer(Timers& timers, std::function<void()> ring) : timers_(timers), ring_(std::move(ring)) {
    timers_.add_timer();
  }
  ~Timer() {
    if (place_ != kNowhere) timers_.remove(*this);
    --timers_.count_;
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  void set(Clock::time_point at);
  // (As far away as it may be, also if it is for ever.)
  void set_in(std::chrono::nanoseconds time);
  void cancel() { due_ = Clock::time_point::max(); }
  bool is_set() const { return due_ != Clock::time_point::max(); }

 private:
  friend class Timers;
  static constexpr std::size_t kNowhere = SIZE_MAX;

  Timers& timers_;
  const std::function<void()> ring_;
  Clock::time_point due_ = Clock::time_point::max();
  std::size_t place_ = kNowhere;  // in the heap
};

}  // namespace weir::net
