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
class Slots;
}  // namespace detail

// The right to be inside, returned when it goes out of scope.
// Not thread-safe: one thread at a time, but it may be released by another than the one that got
// it. The limiter must outlive it.
class [[nodiscard]] Permit {
 public:
  Permit(Permit&& other) noexcept
      : decision_(other.decision_),
        slots_(std::exchange(other.slots_, nullptr)),
        permits_(other.permits_) {}
  Permit& operator=(Permit&& other) noexcept {
    if (this == &other) return *this;
    release();
    decision_ = other.decision_;
    slots_ = std::exchange(other.slots_, nullptr);
    permits_ = other.permits_;
    return *this;
  }
  ~Permit() { release(); }

  // True when let in, until released or moved away.
  explicit operator bool() const noexcept { return slots_ != nullptr; }

  // The answer, as it was given. When refused, retry_after is 0: nobody knows when somebody leaves.
  const Decision& decision() const noexcept { return decision_; }

  // Leaves before the end of the scope. The second time nothing happens.
  void release() noexcept;

 private:
  friend class detail::Slots;
  Permit(const Decision& decision, detail::Slots* slots, Permits permits) noexcept
      : decision_(decision), slots_(slots), permits_(permits) {}

  Decision decision_;
  detail::Slots* slots_;  // none when refused
  Permits permits_;
};

// A ConcurrencyLimiter lets in so many at a time, whoever comes first.
// Thread-safe: every member, from any thread, under a lock that no caller holds while it waits.
// Not for how many come in a time (Limiter), and not for holders in other processes, which may
// crash: those need a lease, and an Engine.
//
//   weir::ConcurrencyLimiter slots{64};
//   if (auto permit = slots.try_enter()) call_backend();  // leaves at the end of the block
//
// Those who wait come in in the order they came, and nobody overtakes them: one that needs many
// slots is not starved by those that need few, who wait behind it.
class ConcurrencyLimiter {
 public:
  // Throws std::invalid_argument for a limit below 1.
  explicit ConcurrencyLimiter(Permits limit, const Clock& clock = system_clock());
  ~ConcurrencyLimiter();
  ConcurrencyLimiter(const ConcurrencyLimiter&) = delete;
  ConcurrencyLimiter& operator=(const ConcurrencyLimiter&) = delete;

  // Now, or not at all; more permits than the limit are impossible. No permits are always let in.
  Permit try_enter(Permits permits = 1) noexcept;

  // Waits for its turn, at most until the deadline; `Decision::wait` is how long it has waited. No
  // permit when stopped, before or while it waits, or when the limit is too small for it by then.
  Permit enter(Deadline deadline, Permits permits = 1, std::stop_token stop = {});

  // How many are inside; may be wrong by the time it is looked at.
  Permits in_flight_approx() const noexcept;

  Permits limit() const noexcept;

  // Lets in those who wait if there is room now. A lower limit throws nobody out: nobody else comes
  // in until enough have left. Throws std::invalid_argument for a limit below 1.
  void set_limit(Permits limit);

 private:
  std::unique_ptr<detail::Slots> slots_;
};

}  // namespace v0
}  // namespace weir
