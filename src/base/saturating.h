#pragma once

#include <cstdint>
#include <limits>

#include "base/int128.h"
#include "base/time.h"

// Arithmetic that stops at the ends of its range instead of wrapping around or being undefined.

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

// `t` moved by `by`, not beyond the range of Instant.
constexpr Instant later(Instant t, Nanos by) { return instant(sat_add(ns(t), by.count())); }

// How long it is from `from` to `to`; negative when `to` lies before.
constexpr Nanos between(Instant from, Instant to) { return Nanos{sat_sub(ns(to), ns(from))}; }

// How long until `then`; zero when it has passed.
constexpr Nanos until(Instant now, Instant then) {
  return then > now ? between(now, then) : Nanos{0};
}

// Quotient rounded towards plus infinity, for a divisor above zero.
constexpr Int128 ceil_div(Int128 dividend, Int128 divisor) {
  const Int128 quotient = dividend / divisor;
  return quotient * divisor < dividend ? quotient + 1 : quotient;
}

// Quotient for a dividend of zero or more; one machine division where both fit in 64 bits, which
// they nearly always do (a general 128-bit division is a library call).
constexpr Int128 quick_div(Int128 dividend, Int128 divisor) {
  constexpr Int128 word = std::numeric_limits<std::uint64_t>::max();
  if (dividend <= word && divisor <= word) {
    return static_cast<std::uint64_t>(dividend) / static_cast<std::uint64_t>(divisor);
  }
  return dividend / divisor;
}

}  // namespace weir
