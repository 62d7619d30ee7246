#pragma once

#include <chrono>
#include <stdexcept>

#include "weir/time.h"

namespace weir {
inline namespace v0 {

class Quota;

// A number of permits in every period, written `per_second(50)` or `per(1, 5s)`.
// A plain value. Invalid numbers throw std::invalid_argument; in a constant expression they do not
// compile.
// Counts whole permits: half a permit a second is one in two seconds, `per(1, 2s)`.
class Rate {
 public:
  constexpr Rate(Permits count, Nanos period) : count_(count), period_(period) {
    if (count < 1) {
      throw std::invalid_argument(
          "weir: a rate needs at least one permit; for less than one a second write per(1, 2s)");
    }
    if (period <= Nanos{0}) {
      throw std::invalid_argument("weir: a rate needs a period above zero, as in per(100, 1min)");
    }
  }

  constexpr Permits count() const noexcept { return count_; }
  constexpr Nanos period() const noexcept { return period_; }

  // A quota whose burst is `permits` instead of the rate's count.
  constexpr Quota burst(Permits permits) const;

  friend constexpr bool operator==(const Rate&, const Rate&) = default;

 private:
  Permits count_;
  Nanos period_;
};

// The rate and the burst of a token bucket, written `per_second(50).burst(100)`. The burst is the
// most that can be taken at one instant from rest.
// A plain value, like Rate, with the same checks.
// Not for windows, queues and smooth limiters, which have no burst.
class Quota {
 public:
  // Implicit on purpose: a rate alone is a quota whose burst is the count.
  constexpr Quota(Rate rate) : Quota(rate, rate.count()) {}  // NOLINT
  constexpr Quota(Rate rate, Permits burst) : rate_(rate), burst_(burst) {
    if (burst < 1) {
      throw std::invalid_argument(
          "weir: a burst must be at least 1, or nothing would ever pass; leave it out for the "
          "rate's own count");
    }
  }

  constexpr Rate rate() const noexcept { return rate_; }
  constexpr Permits burst() const noexcept { return burst_; }

  friend constexpr bool operator==(const Quota&, const Quota&) = default;

 private:
  Rate rate_;
  Permits burst_;
};

constexpr Quota Rate::burst(Permits permits) const { return {*this, permits}; }

// `count` permits in every `period`.
constexpr Rate per(Permits count, Nanos period) { return {count, period}; }
constexpr Rate per_second(Permits count) { return per(count, std::chrono::seconds{1}); }
constexpr Rate per_minute(Permits count) { return per(count, std::chrono::minutes{1}); }
constexpr Rate per_hour(Permits count) { return per(count, std::chrono::hours{1}); }

}  // namespace v0
}  // namespace weir
