#pragma once

#include <memory>

#include "weir/quota.h"
#include "weir/time.h"

namespace weir {
inline namespace v0 {

namespace detail {
struct LimitAccess;
struct Rule;
}  // namespace detail

// A limit by any of the algorithms: what may pass, not what has passed.
// A value that never changes; copies share it, and may be used from any thread.
// Not for limits on what is under way at a time: those are the ConcurrencyLimiter's.
//
// Whatever is made here throws std::invalid_argument for numbers that make no limit: none at all,
// more than 10^12 permits a second, periods of more than 73 years.
class Limit {
 public:
  // A token bucket, the one to take unless something speaks for another: admits a burst at once and
  // the rate in the long run. Implicit on purpose: a quota is a limit.
  Limit(Rate rate);    // NOLINT
  Limit(Quota quota);  // NOLINT

  // At most `count` in each window of a fixed length, laid end to end from the Unix epoch on. Twice
  // as many can pass around the edge of two windows; `sliding` does not have that flaw.
  static Limit window(Permits count, Nanos period);

  // At most `count` in a window that slides, estimated from two counters.
  static Limit sliding(Permits count, Nanos period);

  // At most `count` in any window, wherever it is laid. Remembers every admission: 4096 at most.
  static Limit sliding_exact(Permits count, Nanos period);

  // A queue that empties at `rate`: one at once, `places` more that wait for their turn, of which
  // the first `undelayed` need not. (nginx: burst= and delay=.)
  static Limit queue(Rate rate, Permits places, Permits undelayed = 0);

  // What can be taken at one instant from rest.
  Permits capacity() const noexcept;

 private:
  friend struct detail::LimitAccess;
  explicit Limit(std::shared_ptr<const detail::Rule> rule) noexcept;

  std::shared_ptr<const detail::Rule> rule_;
};

}  // namespace v0
}  // namespace weir
