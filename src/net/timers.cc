#include "net/timers.h"

namespace weir::net {

void Timers::put(std::size_t place, const Entry& entry) {
  heap_[place] = entry;
  entry.timer->place_ = place;
}

void Timers::rise(std::size_t place) {
  const Entry entry = heap_[place];
  while (place > 0 && entry.at < heap_[(place - 1) / 2].at) {
    put(place, heap_[(place - 1) / 2]);
    place = (place - 1) / 2;
  }
  put(place, entry);
}

void Timers::sink(std::size_t place) {
  const Entry entry = heap_[place];
  for (std::size_t child; (child = 2 * place + 1) < heap_.size(); place = child) {
    if (child + 1 < heap_.size() && heap_[child + 1].at < heap_[child].at) ++child;
    if (entry.at <= heap_[child].at) break;
    put(place, heap_[child]);
  }
  put(place, entry);
}

void Timers::add_timer() {
  if (heap_.capacity() <= count_) heap_.reserve(2 * count_ + 1);
  ++count_;
}

void Timers::add(Timer& timer, Clock::time_point at) {
  heap_.push_back({at, &timer});
  rise(heap_.size() - 1);
}

void Timers::hasten(Timer& timer, Clock::time_point at) {
  heap_[timer.place_].at = at;
  rise(timer.place_);
}

void Timers::remove(Timer& timer) {
  const std::size_t place = timer.place_;
  timer.place_ = Timer::kNowhere;
  const Entry last = heap_.back();
  heap_.pop_back();
  if (place == heap_.size()) return;
  put(place, last);
  rise(place);
  sink(last.timer->place_);
}

void Timers::run(Clock::time_point now) {
  while (!heap_.empty() && heap_[0].at <= now) {
    Timer& timer = *heap_[0].timer;
    remove(timer);
    if (timer.due_ > now) {  // put off, or cancelled
      if (timer.is_set()) add(timer, timer.due_);
      continue;
    }
    timer.cancel();
    timer.ring_();
  }
}

void Timer::set(Clock::time_point at) {
  due_ = at;
  if (!is_set()) return;
  if (place_ == kNowhere) return timers_.add(*this, at);
  if (at < timers_.heap_[place_].at) timers_.hasten(*this, at);
}

void Timer::set_in(std::chrono::nanoseconds time) {
  const auto now = Clock::now();
  set(time >= Clock::time_point::max() - now ? Clock::time_point::max() : now + time);
}

}  // namespace weir::net
