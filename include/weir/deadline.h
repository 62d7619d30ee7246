#pragma once

#include <algorithm>
#include <cstdint>

#include "weir/time.h"

namespace weir {
inline namespace v0 {

// Until when somebody is willing to wait.
// A plain value. One given by `after` begins to run when it is used, on the clock of whoever is
// asked to wait.
// Not for how long something may take once it has been let in.
class Deadline {
 public:
  // `patience` from the moment of asking; zero or less means not to wait at all.
  static constexpr Deadline after(Nanos patience) noexcept {
    return {true, std::max(patience, Nanos{0})};
  }
  // That instant. One that has passed means not to wait at all.
  static constexpr Deadline at(Instant instant) noexcept {
    return {false, instant.time_since_epoch()};
  }
  static constexpr Deadline never() noexcept { return at(Instant::max()); }

  // The instant meant by somebody who asks at `now`.
  constexpr Instant resolve(Instant now) const noexcept {
    if (!relative_) return Instant{span_};
    return now > Instant::max() - span_ ? Instant::max() : now + span_;
  }

  // How long that is from `now` on; zero when it has passed.
  constexpr Nanos left(Instant now) const noexcept {
    const Instant end = resolve(now);
    if (end <= now) return Nanos{0};
    // Two instants may lie further apart than a duration can say.
    constexpr auto bits = [](Instant t) {
      return static_cast<std::uint64_t>(t.time_since_epoch().count());
    };
    constexpr auto most = static_cast<std::uint64_t>(kForever.count());
    return Nanos{static_cast<std::int64_t>(std::min(bits(end) - bits(now), most))};
  }

 private:
  constexpr Deadline(bool relative, Nanos span) noexcept : relative_(relative), span_(span) {}

  bool relative_;
  Nanos span_;  // from the moment of asking, or else since the epoch
};

}  // namespace v0
}  // namespace weir
