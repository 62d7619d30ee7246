#pragma once

#include <cstring>
#include <type_traits>

#include "base/saturating.h"
#include "weir/reservation.h"

namespace weir {
inline namespace v0 {
namespace detail {

// A ticket is written and read by its giver alone, as whatever that wants to remember.
template <typename T>
Ticket ticket_of(const T& note) noexcept {
  static_assert(sizeof(T) <= sizeof(Ticket) && std::is_trivially_copyable_v<T>);
  Ticket ticket;
  std::memcpy(ticket.bytes, &note, sizeof(T));
  return ticket;
}

template <typename T>
T note_on(const Ticket& ticket) noexcept {
  static_assert(sizeof(T) <= sizeof(Ticket) && std::is_trivially_copyable_v<T>);
  T note;
  std::memcpy(static_cast<void*>(&note), ticket.bytes, sizeof(T));
  return note;
}

// Makes reservations, for the limiters.
struct ReservationAccess {
  // Of what was decided at `now`; the note is for when it is given back.
  template <typename T>
  static Reservation make(const Decision& decision, Instant now, Giver& giver,
                          const T& note) noexcept {
    return {decision, turn_of(decision, now), decision ? &giver : nullptr, ticket_of(note)};
  }

 private:
  static Instant turn_of(const Decision& decision, Instant now) noexcept {
    if (decision.outcome == Outcome::impossible) return Instant::max();
    return later(now, decision ? decision.wait : decision.retry_after);
  }
};

}  // namespace detail
}  // namespace v0
}  // namespace weir
