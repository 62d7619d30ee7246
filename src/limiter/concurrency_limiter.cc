#include "weir/concurrency_limiter.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <optional>
#include <stdexcept>

#include "base/saturating.h"

namespace weir {
inline namespace v0 {

namespace detail {

// The slots, and those who wait for some.
class Slots {
 public:
  Slots(Permits limit, const Clock& clock) : clock_(clock), limit_(limit) {}

  Permit try_enter(Permits permits) {
    const std::lock_guard lock(mutex_);
    return answer(permits);
  }

  Permit enter(Deadline deadline, Permits permits, const std::stop_token& stop) {
    const Instant now = clock_.now();
    const Instant end = deadline.resolve(now);
    std::unique_lock lock(mutex_);
    if (stop.stop_requested()) return refuse(Outcome::limited);
    Permit answered = answer(permits);
    if (answered.decision().outcome != Outcome::limited || end <= now) return answered;

    Waiter waiter{.permits = permits};
    waiter.place = queue_.insert(queue_.end(), &waiter);
    lock.unlock();
    wait(waiter, end, stop);
    waiter.answer->decision_.wait = until(now, clock_.now());
    return *std::move(waiter.answer);
  }

  void leave(Permits permits) noexcept {
    const std::lock_guard lock(mutex_);
    in_flight_ -= permits;
    call_in();
  }

  void set_limit(Permits limit) {
    const std::lock_guard lock(mutex_);
    limit_ = limit;
    call_in();
  }

  Permits limit() const {
    const std::lock_guard lock(mutex_);
    return limit_;
  }

  Permits in_flight() const {
    const std::lock_guard lock(mutex_);
    return in_flight_;
  }

 private:
  struct Waiter {
    const Permits permits;
    std::list<Waiter*>::iterator place{};
    std::optional<Permit> answer{};  // none while in the queue
    std::stop_source wake{};
  };

  // Sleeps on the clock, whatever clock that is, to be woken by a stop of the waiter's own.
  void wait(Waiter& waiter, Instant end, const std::stop_token& stop) {
    struct Patience {
      Slots& slots;
      Waiter& waiter;
      ~Patience() { slots.give_up(waiter); }
    } const patience{*this, waiter};
    const std::stop_callback pass_on(stop, [&] { waiter.wake.request_stop(); });
    clock_.sleep_until(end, waiter.wake.get_token());
  }

  // A waiter without an answer by now does not get in. Those behind it may, if it asked for much.
  void give_up(Waiter& waiter) {
    const std::lock_guard lock(mutex_);
    if (waiter.answer) return;
    queue_.erase(waiter.place);
    waiter.answer = refuse(Outcome::limited);
    call_in();
  }

  // Answers those at the head of the queue until one has to wait on. They are woken under the
  // mutex, without which they cannot leave: so no waiter is gone before it is woken.
  void call_in() noexcept {
    while (!queue_.empty()) {
      Waiter& first = *queue_.front();
      const Outcome outcome = decide(first.permits);
      if (outcome == Outcome::limited) return;
      queue_.pop_front();
      first.answer = outcome == Outcome::allowed ? let_in(first.permits) : refuse(outcome);
      first.wake.request_stop();
    }
  }

  // For whoever comes now: nobody overtakes those who wait.
  Permit answer(Permits permits) {
    const Outcome outcome = decide(permits);
    if (outcome != Outcome::allowed) return refuse(outcome);
    const bool overtakes = permits > 0 && !queue_.empty();
    return overtakes ? refuse(Outcome::limited) : let_in(permits);
  }

  Outcome decide(Permits permits) const {
    if (permits < 0 || permits > limit_) return Outcome::impossible;
    return permits == 0 || permits <= limit_ - in_flight_ ? Outcome::allowed : Outcome::limited;
  }

  Permit let_in(Permits permits) {
    in_flight_ += permits;
    return {describe(Outcome::allowed), this, permits};
  }

  Permit refuse(Outcome outcome) const { return {describe(outcome), nullptr, 0}; }

  Decision describe(Outcome outcome) const {
    return {.outcome = outcome,
            .limit = limit_,
            .remaining = queue_.empty() ? std::max<Permits>(limit_ - in_flight_, 0) : 0,
            .retry_after = outcome == Outcome::impossible ? kNever : Nanos{0}};
  }

  const Clock& clock_;

  // Below: under the mutex.
  mutable std::mutex mutex_;
  Permits limit_;
  Permits in_flight_ = 0;
  std::list<Waiter*> queue_;
};

}  // namespace detail

namespace {

Permits at_least_one(Permits limit) {
  if (limit < 1) {
    throw std::invalid_argument("weir: a ConcurrencyLimiter must let in at least 1 at a time");
  }
  return limit;
}

}  // namespace

void Permit::release() noexcept {
  if (detail::Slots* slots = std::exchange(slots_, nullptr)) slots->leave(permits_);
}

ConcurrencyLimiter::ConcurrencyLimiter(Permits limit, const Clock& clock)
    : slots_(std::make_unique<detail::Slots>(at_least_one(limit), clock)) {}

ConcurrencyLimiter::~ConcurrencyLimiter() = default;

Permit ConcurrencyLimiter::try_enter(Permits permits) noexcept {
  return slots_->try_enter(permits);
}

Permit ConcurrencyLimiter::enter(Deadline deadline, Permits permits, std::stop_token stop) {
  return slots_->enter(deadline, permits, stop);
}

Permits ConcurrencyLimiter::in_flight_approx() const noexcept { return slots_->in_flight(); }

Permits ConcurrencyLimiter::limit() const noexcept { return slots_->limit(); }

void ConcurrencyLimiter::set_limit(Permits limit) { slots_->set_limit(at_least_one(limit)); }

}  // namespace v0
}  // namespace weir
