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

// A SmoothLimiter spaces its callers evenly, as Guava's RateLimiter does: a call does not wait for
// what it takes itself, the next one does.
// Thread-safe: every member, from any thread, under a lock that no caller holds while it waits.
// Not for strict limits: a call is never refused for its size, however large, and what it takes too
// much is paid for by those after it. A Limiter refuses.
//
// Time in which nobody calls is saved up, a second of it at most: 10/s after a rest admits ten that
// are saved up and one on credit. With a warm-up it is the other way round: a limiter that has
// rested is cold, and begins at a third of its rate. As with Guava, a limiter is created with
// nothing saved up, one that warms up cold.
class SmoothLimiter {
 public:
  explicit SmoothLimiter(Rate rate, const Clock& clock = system_clock());
  // Is cold after resting for `warm_up`, and takes that long to be warm again; four hours at most.
  SmoothLimiter(Rate rate, Nanos warm_up, const Clock& clock = system_clock());
  ~SmoothLimiter();
  SmoothLimiter(const SmoothLimiter&) = delete;
  SmoothLimiter& operator=(const SmoothLimiter&) = delete;

  // Waits for its turn, however long that takes, and returns how long it took. Throws
  // std::invalid_argument for permits below zero.
  Nanos acquire(Permits permits = 1);

  // Waits for its turn, at most until the deadline, and refuses at once when that would be too
  // late. When stopped, before or while it waits, it is limited, and gives back what it took unless
  // another caller has been told to wait for it meanwhile.
  Decision acquire(Deadline deadline, Permits permits = 1, std::stop_token stop = {});

  // Waits for its turn if that comes within `timeout`; otherwise refuses at once.
  Decision try_acquire(Permits permits = 1, Nanos timeout = Nanos{0});

  // Takes permits that may be used later, if that is no more than `max_wait` from now. Cancelling
  // gives them back as long as nobody has called since.
  Reservation reserve(Permits permits = 1, Nanos max_wait = kForever) noexcept;

  // From the next call on. What is owed already is paid at the old rate: the caller after this
  // waits as it would have, and so do those who are waiting. Time saved up stays.
  void set_rate(Rate rate);
  Rate rate() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace v0
}  // namespace weir
