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

// The permits in use and the FIFO queue of waiting callers. Thread-safe.
class PermitPool {
 public:
  PermitPool(Permits limit, const Clock& clock) : clock_(clock), limit_(limit) {}

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

    QueuedCaller caller{.permits = permits};
    caller.position = queue_.insert(queue_.end(), &caller);
    lock.unlock();
    wait(caller, end, stop);
    caller.answer->decision_.wait = until(now, clock_.now());
    return *std::move(caller.answer);
  }

  void leave(Permits permits) noexcept {
    const std::lock_guard lock(mutex_);
    in_flight_ -= permits;
    admit_waiters();
  }

  void set_limit(Permits limit) {
    const std::lock_guard lock(mutex_);
    limit_ = limit;
    admit_waiters();
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
  struct QueuedCaller {
    const Permits permits;
    std::list<QueuedCaller*>::iterator position{};
    std::optional<Permit> answer{};  // none while in the queue
    std::stop_source wake{};
  };

  // Sleeps on the limiter's clock, which a test may provide. The caller's own stop_source wakes it.
  void wait(QueuedCaller& caller, Instant end, const std::stop_token& stop) {
    // The destructor runs even if the clock throws.
    struct DequeueGuard {
      PermitPool& pool;
      QueuedCaller& caller;
      ~DequeueGuard() { pool.give_up(caller); }
    } const guard{*this, caller};
    const std::stop_callback pass_on(stop, [&] { caller.wake.request_stop(); });
    clock_.sleep_until(end, caller.wake.get_token());
  }

  // Removes a caller that has no answer yet, and refuses it. Waiters behind it may need fewer
  // permits, so they are tried next.
  void give_up(QueuedCaller& caller) {
    const std::lock_guard lock(mutex_);
    if (caller.answer) return;
    queue_.erase(caller.position);
    caller.answer = refuse(Outcome::limited);
    admit_waiters();
  }

  // Answers waiters from the head of the queue until one has to wait on. Wakes them under the
  // mutex: a caller needs the mutex to return, so it still exists when it is woken.
  void admit_waiters() noexcept {
    while (!queue_.empty()) {
      QueuedCaller& first = *queue_.front();
      const Outcome outcome = decide(first.permits);
      if (outcome == Outcome::limited) return;
      queue_.pop_front();
      first.answer = outcome == Outcome::allowed ? admit(first.permits) : refuse(outcome);
      first.wake.request_stop();
    }
  }

  // Decides for a new caller, which must not overtake the queue.
  Permit answer(Permits permits) {
    const Outcome outcome = decide(permits);
    if (outcome != Outcome::allowed) return refuse(outcome);
    const bool overtakes = permits > 0 && !queue_.empty();
    return overtakes ? refuse(Outcome::limited) : admit(permits);
  }

  Outcome decide(Permits permits) const {
    if (permits < 0 || permits > limit_) return Outcome::impossible;
    return permits == 0 || permits <= limit_ - in_flight_ ? Outcome::allowed : Outcome::limited;
  }

  Permit admit(Permits permits) {
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

  // Protected by the mutex.
  mutable std::mutex mutex_;
  Permits limit_;
  Permits in_flight_ = 0;
  std::list<QueuedCaller*> queue_;
};

}  // namespace detail

namespace {

Permits at_least_one(Permits limit) {
  if (limit < 1) {
    throw std::invalid_argument("weir: the limit of a ConcurrencyLimiter must be at least 1");
  }
  return limit;
}

}  // namespace

void Permit::release() noexcept {
  if (detail::PermitPool* pool = std::exchange(pool_, nullptr)) pool->leave(permits_);
}

ConcurrencyLimiter::ConcurrencyLimiter(Permits limit, const Clock& clock)
    : pool_(std::make_unique<detail::PermitPool>(at_least_one(limit), clock)) {}

ConcurrencyLimiter::~ConcurrencyLimiter() = default;

Permit ConcurrencyLimiter::try_enter(Permits permits) noexcept { return pool_->try_enter(permits); }

Permit ConcurrencyLimiter::enter(Deadline deadline, Permits permits, std::stop_token stop) {
  return pool_->enter(deadline, permits, stop);
}

Permits ConcurrencyLimiter::in_flight_approx() const noexcept { return pool_->in_flight(); }

Permits ConcurrencyLimiter::limit() const noexcept { return pool_->limit(); }

void ConcurrencyLimiter::set_limit(Permits limit) { pool_->set_limit(at_least_one(limit)); }

}  // namespace v0
}  // namespace weir
