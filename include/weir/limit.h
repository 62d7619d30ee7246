#pragma once

#include <memory>

#include "weir/quota.h"
#include "weir/time.h"

namespace weir {
inline namespace v0 {

namespace detail {
struct LimitAccess;
struct CoreLimit;
}  // namespace detail

// The parameters of a limit by any of the algorithms, without any usage.
// An immutable value: copies share it and may be used from any thread.
// Not for limits on concurrency: see ConcurrencyLimiter.
//
// All constructors and factories throw std::invalid_argument for invalid numbers: no permits, more
// than 10^12 permits a second, periods of more than 73 years.
class Limit {
 public:
  // A token bucket, the best default: admits a burst at once and the rate in the long run. Implicit
  // on purpose: a quota is a limit.
  Limit(Rate rate);    // NOLINT
  Limit(Quota quota);  // NOLINT

  // At most `count` in each fixed window; windows are aligned to the Unix epoch. Twice as many can
  // pass around a window boundary; `sliding` does not have that flaw.
  static Limit window(Permits count, Nanos period);

  // At most `count` in a sliding window, estimated from two counters.
  static Limit sliding(Permits count, Nanos period);

  // At most `count` in every window of that length, exactly. Remembers every admission: `count` is
  // 4096 at most.
  static Limit sliding_exact(Permits count, Nanos period);

  // A queue that drains at `rate`: admits one call at once and up to `places` more, of which the
  // first `undelayed` pass without delay and the others wait for their turn. (nginx limit_req:
  // burst= and delay=.)
  static Limit queue(Rate rate, Permits places, Permits undelayed = 0);

  // The most that can be taken at one instant from rest.
  Permits capacity() const noexcept;

 private:
  friend struct detail::LimitAccess;
  explicit Limit(std::shared_ptr<const detail::CoreLimit> core) noexcept;

  std::shared_ptr<const detail::CoreLimit> core_;
};

}  // namespace v0
}  // namespace weir
