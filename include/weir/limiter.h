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

// A Limiter admits events at the rate of one limit and says to the others when to come back.
// Thread-safe: every member, from any thread. Under a token bucket a call is one compare-and-swap
// of one word, and a refusal writes nothing; only `Limit::sliding_exact` takes a lock.
// Not for a limit per user or key (KeyedLimiter), for one that other processes share (Engine), or
// for how many are inside at a time (ConcurrencyLimiter).
//
// Three verbs, most callers want the first: `try_acquire` now or not at all, `acquire` to wait at
// most until a deadline, `reserve` to be told when, and do the waiting elsewhere. Refused calls
// take nothing. Time comes from the clock, read once per call; the clock must outlive the limiter.
class Limiter {
 public:
  // Begins at rest: the whole burst can be taken. Throws std::invalid_argument for a limit on what
  // is under way at a time.
  explicit Limiter(Limit limit, const Clock& clock = system_clock());
  ~Limiter();
  Limiter(const Limiter&) = delete;
  Limiter& operator=(const Limiter&) = delete;

  // Now, or not at all. A cost of zero asks for nothing and takes nothing.
  Decision try_acquire(Permits cost = 1) noexcept;

  // The same for a caller that knows the time: of a batch, a log, a simulation.
  Decision try_acquire_at(Instant now, Permits cost = 1) noexcept;

  // Waits for its turn, at most until the deadline, and refuses at once when that would be too
  // late. `Decision::wait` is how long it has waited. When stopped, before or while it waits, it is
  // limited, with a retry_after of 0 if only the stop was against it, and gives back what it took
  // as far as others have not been promised later turns.
  //
  // Callers under buckets and queues get their turns in the order they come. Under windows there is
  // no order: when the next one opens, all that wait ask again.
  Decision acquire(Deadline deadline, Permits cost = 1, std::stop_token stop = {});

  // Takes permits that may be used later, if that is no more than `max_wait` from now. Windows do
  // not lend: under those a reservation is for now or refused.
  Reservation reserve(Permits cost = 1, Nanos max_wait = kForever) noexcept;

  // What try_acquire would say, with what remains as it is. Changes nothing.
  Decision peek(Permits cost = 1) const noexcept;

  // Forgets all that was taken; earlier reservations can no longer be given back.
  void reset() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace v0
}  // namespace weir
