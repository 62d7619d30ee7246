#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace weir::net {

class Timer;

// The timers of one loop: a binary heap by time. For the loop's thread.
class Timers {
 public:
  using SteadyClock = std::chrono::steady_clock;

  // When run() must be called at the latest.
  SteadyClock::time_point next() const {
    return heap_.empty() ? SteadyClock::time_point::max() : heap_[0].at;
  }

  // Calls the timers that are due.
  void run(SteadyClock::time_point now);

 private:
  friend class Timer;
  struct HeapEntry {
    SteadyClock::time_point at;
    Timer* timer;
  };
  void add(Timer& timer, SteadyClock::time_point at);
  void move_earlier(Timer& timer, SteadyClock::time_point at);
  void remove(Timer& timer);
  void reserve_slot();
  void put(std::size_t index, const HeapEntry& entry);
  void sift_up(std::size_t index);
  void sift_down(std::size_t index);

  std::vector<HeapEntry> heap_;  // the earliest first; has capacity for all timers
  std::size_t count_ = 0;        // timers that exist, set or not
};

// A one-shot timer. It may be set again in its own callback, and destroyed at any time except in
// that. Most timers are timeouts that rarely fire and are postponed often: so postponing and
// cancelling is one store, and the heap is only corrected when the old time has come. Setting never
// allocates.
class Timer {
 public:
  using SteadyClock = Timers::SteadyClock;

  // `timers` outlives it.
  Timer(Timers& timers, std::function<void()> callback)
      : timers_(timers), callback_(std::move(callback)) {
    timers_.reserve_slot();
  }
  ~Timer() {
    if (heap_index_ != kNotInHeap) timers_.remove(*this);
    --timers_.count_;
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  void set(SteadyClock::time_point at);
  // Saturates: a duration without end is allowed.
  void set_in(std::chrono::nanoseconds time);
  void cancel() { due_ = SteadyClock::time_point::max(); }
  bool is_set() const { return due_ != SteadyClock::time_point::max(); }

 private:
  friend class Timers;
  static constexpr std::size_t kNotInHeap = SIZE_MAX;

  Timers& timers_;
  const std::function<void()> callback_;
  SteadyClock::time_point due_ = SteadyClock::time_point::max();
  std::size_t heap_index_ = kNotInHeap;
};

}  // namespace weir::net
