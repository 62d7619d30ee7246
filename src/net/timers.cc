#include "net/timers.h"

namespace weir::net {

void Timers::put(std::size_t index, const HeapEntry& entry) {
  heap_[index] = entry;
  entry.timer->heap_index_ = index;
}

void Timers::sift_up(std::size_t index) {
  const HeapEntry entry = heap_[index];
  while (index > 0 && entry.at < heap_[(index - 1) / 2].at) {
    put(index, heap_[(index - 1) / 2]);
    index = (index - 1) / 2;
  }
  put(index, entry);
}

void Timers::sift_down(std::size_t index) {
  const HeapEntry entry = heap_[index];
  for (std::size_t child; (child = 2 * index + 1) < heap_.size(); index = child) {
    if (child + 1 < heap_.size() && heap_[child + 1].at < heap_[child].at) ++child;
    if (entry.at <= heap_[child].at) break;
    put(index, heap_[child]);
  }
  put(index, entry);
}

void Timers::reserve_slot() {
  if (heap_.capacity() <= count_) heap_.reserve(2 * count_ + 1);
  ++count_;
}

void Timers::add(Timer& timer, SteadyClock::time_point at) {
  heap_.push_back({at, &timer});
  sift_up(heap_.size() - 1);
}

void Timers::move_earlier(Timer& timer, SteadyClock::time_point at) {
  heap_[timer.heap_index_].at = at;
  sift_up(timer.heap_index_);
}

void Timers::remove(Timer& timer) {
  const std::size_t index = timer.heap_index_;
  timer.heap_index_ = Timer::kNotInHeap;
  const HeapEntry last = heap_.back();
  heap_.pop_back();
  if (index == heap_.size()) return;
  put(index, last);
  sift_up(index);
  sift_down(last.timer->heap_index_);
}

void Timers::run(SteadyClock::time_point now) {
  while (!heap_.empty() && heap_[0].at <= now) {
    Timer& timer = *heap_[0].timer;
    remove(timer);
    if (timer.due_ > now) {  // postponed, or cancelled
      if (timer.is_set()) add(timer, timer.due_);
      continue;
    }
    timer.cancel();
    timer.callback_();
  }
}

void Timer::set(SteadyClock::time_point at) {
  due_ = at;
  if (!is_set()) return;
  if (heap_index_ == kNotInHeap) return timers_.add(*this, at);
  if (at < timers_.heap_[heap_index_].at) timers_.move_earlier(*this, at);
}

void Timer::set_in(std::chrono::nanoseconds time) {
  const auto now = SteadyClock::now();
  set(time >= SteadyClock::time_point::max() - now ? SteadyClock::time_point::max() : now + time);
}

}  // namespace weir::net
