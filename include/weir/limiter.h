#pragma once

#include <memory>
#include <stop_token>

#include "weir/clock.h"
#include "weir/deadline.h"
#include "weir/decision.h"
#include "weir/limit.h"
#include "weir/quota.h"
#include "weir/reservation.h"
#include "weir/time.h"

// Start here.
//
//   weir::Limiter mails{weir::per_second(50).burst(100)};
//   if (auto d = mails.try_acquire(); !d) return try_again_in(d.retry_after);

namespace weir {
inline namespace v0 {

// Admits events at the rate of one limit, and tells refused callers when to retry.
// Thread-safe. Under a token bucket, a call is one compare-and-swap of one word, and a refusal
// writes nothing. Only `Limit::sliding_exact` takes a lock.
// Not for a limit per user or key (KeyedLimiter), shared with other processes (Engine), or on
// concurrency (ConcurrencyLimiter).
//
// Three operations; most callers need the first. `try_acquire` decides at once, `acquire` waits
// until a deadline, `reserve` returns the time of the turn so that the caller can wait elsewhere.
// Refused calls take nothing. The clock is read once per call and must outlive the limiter.
class Limiter {
 public:
  // Begins at rest: the whole burst can be taken. Throws std::invalid_argument for a concurrency
  // limit.
  explicit Limiter(Limit limit, const Clock& clock = system_clock());
  ~Limiter();
  Limiter(const Limiter&) = delete;
  Limiter& operator=(const Limiter&) = delete;

  // Admits the call now, or refuses it. A cost of zero takes nothing.
  Decision try_acquire(Permits cost = 1) noexcept;

  // The same with the caller's time: for a batch, a log, a simulation.
  Decision try_acquire_at(Instant now, Permits cost = 1) noexcept;

  // Waits for a turn, at most until the deadline; refuses at once if the turn would come later.
  // `Decision::wait` is how long it has waited. When stopped, before or while it waits, the outcome
  // is `limited`, with a retry_after of 0 if only the stop prevented it. Permits that
  // were taken for the turn are given back, except those on which the promised turn of a later
  // caller depends.
  //
  // Under buckets and queues, callers get their turns in FIFO order. Under windows there is no
  // order: all waiting callers retry when the next window opens.
  Decision acquire(Deadline deadline, Permits cost = 1, std::stop_token stop = {});

  // Takes permits to be used at a later time, at most `max_wait` from now. Under windows, which
  // cannot take ahead of time, a reservation is for now or refused.
  Reservation reserve(Permits cost = 1, Nanos max_wait = kForever) noexcept;

  // The decision that try_acquire would give, with the present remaining permits. Changes nothing.
  Decision peek(Permits cost = 1) const noexcept;

  // Forgets all usage. Earlier reservations can no longer be cancelled.
  void reset() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace v0
}  // namespace weir
