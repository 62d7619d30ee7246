#pragma once

#include <cstddef>
#include <utility>

#include "weir/decision.h"
#include "weir/time.h"

namespace weir {
inline namespace v0 {

namespace detail {

struct ReservationAccess;

// Opaque data with which a limiter can undo a reservation: room for a receipt and a table key.
struct Ticket {
  alignas(16) std::byte bytes[96];
};

// The limiter that issued a ticket.
class Issuer {
 public:
  // Gives back the permits of a ticket. Returns whether any permits were given back.
  virtual bool give_back(const Ticket& ticket) noexcept = 0;

 protected:
  ~Issuer() = default;
};

}  // namespace detail

// Permits that have been taken in advance, to be used from ready_at() on.
// Not thread-safe. The limiter must outlive it.
// Not a guard: its destructor gives nothing back, because the work may start from a timer long
// after the reservation object is gone.
class [[nodiscard]] Reservation {
 public:
  Reservation(Reservation&& other) noexcept
      : decision_(other.decision_),
        ready_at_(other.ready_at_),
        issuer_(std::exchange(other.issuer_, nullptr)),
        ticket_(other.ticket_) {}
  Reservation& operator=(Reservation&& other) noexcept {
    decision_ = other.decision_;
    ready_at_ = other.ready_at_;
    issuer_ = std::exchange(other.issuer_, nullptr);
    ticket_ = other.ticket_;
    return *this;
  }

  // True if granted and not yet cancelled or moved from.
  explicit operator bool() const noexcept { return issuer_ != nullptr; }

  // The decision at the time of the call.
  const Decision& decision() const noexcept { return decision_; }

  // When granted, the instant from which the permits may be used. When refused, the instant at
  // which to retry; Instant::max() if a retry can never succeed.
  Instant ready_at() const noexcept { return ready_at_; }

  // Gives back the permits that have not drained since. Returns whether any were given back: there
  // may be none once ready_at() has come, or once the window is over. Idempotent.
  bool cancel() noexcept {
    detail::Issuer* issuer = std::exchange(issuer_, nullptr);
    return issuer != nullptr && issuer->give_back(ticket_);
  }

 private:
  friend struct detail::ReservationAccess;
  Reservation(const Decision& decision, Instant ready_at, detail::Issuer* issuer,
              const detail::Ticket& ticket) noexcept
      : decision_(decision), ready_at_(ready_at), issuer_(issuer), ticket_(ticket) {}

  Decision decision_;
  Instant ready_at_;
  detail::Issuer* issuer_;  // null when refused
  detail::Ticket ticket_;
};

}  // namespace v0
}  // namespace weir
