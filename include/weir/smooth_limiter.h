#pragma once

#include <memory>
#include <stop_token>

#include "weir/clock.h"
#include "weir/deadline.h"
#include "weir/decision.h"
#include "weir/quota.h"
#include "weir/reservation.h"
#include "weir/time.h"

namespace weir {
inline namespace v0 {

// Spaces its callers evenly, as Guava's RateLimiter does: the wait for a call's permits is served
// by the next call.
// Thread-safe. Uses a mutex, which no caller holds while it waits.
// Not for strict limits: a call of any size is admitted, and later callers wait for what it took. A
// Limiter refuses instead.
//
// Idle time is saved up, one second at most: after a rest, 10/s admits ten saved permits and one on
// credit. With a warm-up it is the other way round: a limiter that has been idle is cold and starts
// at a third of its rate. As with Guava, a new limiter has nothing saved up, and a new one with
// warm-up is cold.
class SmoothLimiter {
 public:
  explicit SmoothLimiter(Rate rate, const Clock& clock = system_clock());
  // The limiter is cold after an idle time of `warm_up`, and takes as long to be warm again. Four
  // hours at most.
  SmoothLimiter(Rate rate, Nanos warm_up, const Clock& clock = system_clock());
  ~SmoothLimiter();
  SmoothLimiter(const SmoothLimiter&) = delete;
  SmoothLimiter& operator=(const SmoothLimiter&) = delete;

  // Waits for its turn without a limit, and returns the time waited. Throws std::invalid_argument
  // for permits below zero.
  Nanos acquire(Permits permits = 1);

  // Waits for a turn, at most until the deadline; refuses at once if the turn would come later.
  // When stopped, before or while it waits, the outcome is `limited`; its permits are given back
  // unless another call has been made since.
  Decision acquire(Deadline deadline, Permits permits = 1, std::stop_token stop = {});

  // Waits for a turn if it comes within `timeout`; otherwise refuses at once.
  Decision try_acquire(Permits permits = 1, Nanos timeout = Nanos{0});

  // Takes permits to be used at a later time, at most `max_wait` from now. Cancelling gives them
  // back as long as no other call has been made since.
  Reservation reserve(Permits permits = 1, Nanos max_wait = kForever) noexcept;

  // Applies to permits taken from now on. Debt that exists already keeps the old rate: the next
  // caller waits as it would have, and so do callers that are waiting. Saved time stays.
  void set_rate(Rate rate);
  Rate rate() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace v0
}  // namespace weir
