#pragma once

#include <memory>
#include <stop_token>
#include <utility>

#include "weir/clock.h"
#include "weir/deadline.h"
#include "weir/decision.h"
#include "weir/time.h"

namespace weir {
inline namespace v0 {

namespace detail {
class PermitPool;
}  // namespace detail

// Permits of a ConcurrencyLimiter, released when this goes out of scope.
// Not thread-safe, but may be released by another thread than the one that acquired it. The limiter
// must outlive it.
class [[nodiscard]] Permit {
 public:
  Permit(Permit&& other) noexcept
      : decision_(other.decision_),
        pool_(std::exchange(other.pool_, nullptr)),
        permits_(other.permits_) {}
  Permit& operator=(Permit&& other) noexcept {
    if (this == &other) return *this;
    release();
    decision_ = other.decision_;
    pool_ = std::exchange(other.pool_, nullptr);
    permits_ = other.permits_;
    return *this;
  }
  ~Permit() { release(); }

  // True if admitted and not yet released or moved from.
  explicit operator bool() const noexcept { return pool_ != nullptr; }

  // The decision at the time of the call. When refused, retry_after is 0: when a permit is released
  // cannot be predicted.
  const Decision& decision() const noexcept { return decision_; }

  // Releases the permits early. Idempotent.
  void release() noexcept;

 private:
  friend class detail::PermitPool;
  Permit(const Decision& decision, detail::PermitPool* slots, Permits permits) noexcept
      : decision_(decision), pool_(slots), permits_(permits) {}

  Decision decision_;
  detail::PermitPool* pool_;  // null when refused
  Permits permits_;
};

// Limits how many calls are in progress at a time: a fair counting semaphore.
// Thread-safe. Uses a mutex, which no caller holds while it waits.
// Not for limits per time (Limiter), nor across processes (Engine): a holder in another process may
// crash, so its permits need a lease.
//
//   weir::ConcurrencyLimiter slots{64};
//   if (auto permit = slots.try_enter()) call_backend();  // released at the end of the block
//
// Callers that wait are admitted in FIFO order. A caller that needs many permits is not starved by
// callers that need few: those queue behind it.
class ConcurrencyLimiter {
 public:
  // Throws std::invalid_argument for a limit below 1.
  explicit ConcurrencyLimiter(Permits limit, const Clock& clock = system_clock());
  ~ConcurrencyLimiter();
  ConcurrencyLimiter(const ConcurrencyLimiter&) = delete;
  ConcurrencyLimiter& operator=(const ConcurrencyLimiter&) = delete;

  // Admits the call now, or refuses it. More permits than the limit are impossible. Zero permits
  // are always admitted.
  Permit try_enter(Permits permits = 1) noexcept;

  // Waits for a turn, at most until the deadline. `Decision::wait` is how long it has waited.
  // Refuses when stopped, before or while it waits, and when the limit is lowered below `permits`.
  Permit enter(Deadline deadline, Permits permits = 1, std::stop_token stop = {});

  // The number of permits in use; may be out of date when the caller reads it.
  Permits in_flight_approx() const noexcept;

  Permits limit() const noexcept;

  // Admits waiting callers if there is room now. A lower limit revokes no permits: new calls are
  // refused until enough have been released. Throws std::invalid_argument for a limit below 1.
  void set_limit(Permits limit);

 private:
  std::unique_ptr<detail::PermitPool> pool_;
};

}  // namespace v0
}  // namespace weir
