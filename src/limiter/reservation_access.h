#pragma once

#include <cstring>
#include <type_traits>

#include "base/saturating.h"
#include "weir/reservation.h"

namespace weir {
inline namespace v0 {
namespace detail {

// Serializes the data that an issuer needs later. Only the issuer reads its tickets.
template <typename T>
Ticket make_ticket(const T& info) noexcept {
  static_assert(sizeof(T) <= sizeof(Ticket) && std::is_trivially_copyable_v<T>);
  Ticket ticket;
  std::memcpy(ticket.bytes, &info, sizeof(T));
  return ticket;
}

template <typename T>
T read_ticket(const Ticket& ticket) noexcept {
  static_assert(sizeof(T) <= sizeof(Ticket) && std::is_trivially_copyable_v<T>);
  T info;
  std::memcpy(static_cast<void*>(&info), ticket.bytes, sizeof(T));
  return info;
}

// Gives the limiters access to the private constructor of Reservation.
struct ReservationAccess {
  // `decision` was made at `now`; `info` is what the issuer needs to give the permits back.
  template <typename T>
  static Reservation make(const Decision& decision, Instant now, Issuer& issuer,
                          const T& info) noexcept {
    return {decision, turn_of(decision, now), decision ? &issuer : nullptr, make_ticket(info)};
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
