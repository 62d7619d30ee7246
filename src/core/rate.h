#pragma once

#include <cstdint>

#include "base/int128.h"
#include "base/time.h"
#include "weir/result.h"

namespace weir::core {

// Why a limit cannot be made of the numbers given.
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
  nginx_period,         // nginx knows requests a second and requests a minute only
};

// More permits than any limit is asked to count: leaves room to add two of them.
inline constexpr Permits kMaxPermits = std::int64_t{1} << 61;
// A permit every thousandth of a nanosecond: above that the clock says nothing any more.
inline constexpr Permits kMaxRate = 1'000'000'000'000;
// Nine decimals.
inline constexpr std::int64_t kMaxScale = 1'000'000'000;
// 73 years: no limit owes or remembers anything for longer.
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

// The price of one permit in time, as a fraction: `price / parts` nanoseconds. It is exact where
// the denominator is at most `max_parts`, which holds for all but odd rates above a million a
// second; otherwise the price is rounded up, so that a rate is never exceeded.
struct Pace {
  std::int64_t parts = 1;  // parts in a nanosecond
  Int128 price = 1;        // parts in a permit

  static Result<Pace, Flaw> of(const Rate& rate, std::int64_t max_parts);
};

}  // namespace weir::core
