#pragma once

#include <cstdint>
#include <limits>

#include "base/int128.h"
#include "base/time.h"

// Saturating arithmetic: results are clamped to the range of the type instead of overflowing.

namespace weir {

constexpr std::int64_t to_int64(Int128 x) {
  constexpr Int128 lowest = std::numeric_limits<std::int64_t>::min();
  constexpr Int128 highest = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(x < lowest ? lowest : x > highest ? highest : x);
}

constexpr std::int64_t sat_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? std::numeric_limits<std::int64_t>::min()
               : std::numeric_limits<std::int64_t>::max();
}

constexpr std::int64_t sat_sub(std::int64_t a, std::int64_t b) {
  std::int64_t difference = 0;
  if (!__builtin_sub_overflow(a, b, &difference)) return difference;
  return a < 0 ? std::numeric_limits<std::int64_t>::min()
               : std::numeric_limits<std::int64_t>::max();
}

// `t + by`, clamped to the range of Instant.
constexpr Instant later(Instant t, Nanos by) { return instant(sat_add(ns(t), by.count())); }

// `to - from`, clamped to the range of Nanos.
constexpr Nanos between(Instant from, Instant to) { return Nanos{sat_sub(ns(to), ns(from))}; }

// The time from `now` to `then`; zero when `then` has passed.
constexpr Nanos until(Instant now, Instant then) {
  return then > now ? between(now, then) : Nanos{0};
}

// The quotient rounded towards plus infinity. The divisor is positive.
constexpr Int128 ceil_div(Int128 dividend, Int128 divisor) {
  const Int128 quotient = dividend / divisor;
  return quotient * divisor < dividend ? quotient + 1 : quotient;
}

// The quotient of a non-negative dividend. Uses one machine division if both operands fit in 64
// bits, which is nearly always the case: a 128-bit division is a library call.
constexpr Int128 quick_div(Int128 dividend, Int128 divisor) {
  constexpr Int128 word = std::numeric_limits<std::uint64_t>::max();
  if (dividend <= word && divisor <= word) {
    return static_cast<std::uint64_t>(dividend) / static_cast<std::uint64_t>(divisor);
  }
  return dividend / divisor;
}

}  // namespace weir
