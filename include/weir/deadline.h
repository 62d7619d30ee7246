#pragma once

#include <algorithm>
#include <cstdint>

#include "weir/time.h"

namespace weir {
inline namespace v0 {

// The latest instant until which a call waits for its turn. A plain value.
// A deadline made by `after` is relative: it starts when the call is made, by the clock of the
// limiter that is called.
// Not a timeout for the work that follows once the call is admitted.
class Deadline {
 public:
  // `max_wait` after the call; zero or less means not to wait at all.
  static constexpr Deadline after(Nanos max_wait) noexcept {
    return {true, std::max(max_wait, Nanos{0})};
  }
  // An absolute instant. One that has passed means not to wait at all.
  static constexpr Deadline at(Instant instant) noexcept {
    return {false, instant.time_since_epoch()};
  }
  static constexpr Deadline never() noexcept { return at(Instant::max()); }

  // The absolute deadline of a call made at `now`.
  constexpr Instant resolve(Instant now) const noexcept {
    if (!relative_) return Instant{span_};
    return now > Instant::max() - span_ ? Instant::max() : now + span_;
  }

  // The time from `now` to the deadline; zero when it has passed.
  constexpr Nanos left(Instant now) const noexcept {
    const Instant end = resolve(now);
    if (end <= now) return Nanos{0};
    // Unsigned arithmetic: the distance of two instants may exceed the range of Nanos.
    constexpr auto bits = [](Instant t) {
      return static_cast<std::uint64_t>(t.time_since_epoch().count());
    };
    constexpr auto max = static_cast<std::uint64_t>(kForever.count());
    return Nanos{static_cast<std::int64_t>(std::min(bits(end) - bits(now), max))};
  }

 private:
  constexpr Deadline(bool relative, Nanos span) noexcept : relative_(relative), span_(span) {}

  bool relative_;
  Nanos span_;  // relative: from the call; else since the epoch
};

}  // namespace v0
}  // namespace weir
