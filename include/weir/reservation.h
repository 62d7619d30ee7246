#pragma once

#include <cstddef>
#include <utility>

#include "weir/decision.h"
#include "weir/time.h"

namespace weir {
inline namespace v0 {

namespace detail {

struct ReservationAccess;

// What a limiter wants to know again when something is given back. Room for a receipt, and for the
// place of a key in a table.
struct Ticket {
  alignas(16) std::byte bytes[96];
};

// Whoever takes back what a ticket was given for.
class Giver {
 public:
  // Whether anything came back.
  virtual bool give_back(const Ticket& ticket) noexcept = 0;

 protected:
  ~Giver() = default;
};

}  // namespace detail

// A turn that was promised: permits have been taken, to be used from ready_at() on.
// Not thread-safe: one thread at a time. The limiter must outlive it.
// Not a guard: it gives nothing back by itself. Whoever forgets a reservation has spent it, since
// the work it was made for may begin long after it is gone, from a timer.
class [[nodiscard]] Reservation {
 public:
  Reservation(Reservation&& other) noexcept
      : decision_(other.decision_),
        ready_at_(other.ready_at_),
        giver_(std::exchange(other.giver_, nullptr)),
        ticket_(other.ticket_) {}
  Reservation& operator=(Reservation&& other) noexcept {
    decision_ = other.decision_;
    ready_at_ = other.ready_at_;
    giver_ = std::exchange(other.giver_, nullptr);
    ticket_ = other.ticket_;
    return *this;
  }

  // True when granted, until it is cancelled or moved away.
  explicit operator bool() const noexcept { return giver_ != nullptr; }

  // The answer, as it was given.
  const Decision& decision() const noexcept { return decision_; }

  // When granted, the instant from which the permits may be used. Otherwise the one at which to ask
  // again: Instant::max() if that will never help.
  Instant ready_at() const noexcept { return ready_at_; }

  // Gives back what has not drained since. Returns whether anything came back: after its time has
  // come, or for a window that is over, nothing may. The second time nothing happens.
  bool cancel() noexcept {
    detail::Giver* giver = std::exchange(giver_, nullptr);
    return giver != nullptr && giver->give_back(ticket_);
  }

 private:
  friend struct detail::ReservationAccess;
  Reservation(const Decision& decision, Instant ready_at, detail::Giver* giver,
              const detail::Ticket& ticket) noexcept
      : decision_(decision), ready_at_(ready_at), giver_(giver), ticket_(ticket) {}

  Decision decision_;
  Instant ready_at_;
  detail::Giver* giver_;  // none when refused
  detail::Ticket ticket_;
};

}  // namespace v0
}  // namespace weir
