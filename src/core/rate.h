#pragma once

#include <cstdint>

#include "base/int128.h"
#include "base/time.h"
#include "weir/result.h"

namespace weir::core {

// The reason why the parameters of a limit are invalid.
enum class Flaw : std::uint8_t {
  rate_not_positive,    // a rate must be above zero
  rate_too_high,        // above kMaxRate permits a second
  rate_too_low,         // one permit takes longer than kLongestDebt
  period_not_positive,  // a period must be above zero
  period_too_long,      // above kLongestDebt
  too_many_decimals,    // a scale above kMaxScale
  not_whole,            // windows and nginx count whole permits
  capacity_too_small,   // below one permit
  capacity_too_large,   // above kMaxPermits, or above what the algorithm can count
  warmup_too_long,      // above kLongestWarmup
  nginx_period,         // nginx only supports rates per second and per minute
};

// The largest capacity. The sum of two such values fits in 64 bits.
inline constexpr Permits kMaxPermits = std::int64_t{1} << 61;
// Permits per second: one per thousandth of a nanosecond, which is beyond the clock's resolution.
inline constexpr Permits kMaxRate = 1'000'000'000'000;
// Nine decimals.
inline constexpr std::int64_t kMaxScale = 1'000'000'000;
// 73 years: the longest debt, and the longest period of any limit.
inline constexpr Nanos kLongestDebt{std::int64_t{1} << 61};

// `count / scale` permits in every `period`: 0.5/s is {5, 10, 1s}.
struct Rate {
  std::int64_t count = 1;
  std::int64_t scale = 1;  // a power of ten, at most kMaxScale
  Nanos period{1'000'000'000};

  bool whole() const { return count % scale == 0; }
  Permits floor() const { return count / scale; }
  friend bool operator==(const Rate&, const Rate&) = default;
};

// The emission interval of GCRA, or price: the time that one permit takes to drain, as the fraction
// `price / parts` in nanoseconds. It is exact if the denominator is at most `max_parts`, as for all
// but odd rates above a million a second. Otherwise it is rounded up, so that the rate is never
// exceeded.
struct EmissionInterval {
  std::int64_t parts = 1;  // parts per nanosecond
  Int128 price = 1;        // parts per permit

  static Result<EmissionInterval, Flaw> of(const Rate& rate, std::int64_t max_parts);
};

}  // namespace weir::core
