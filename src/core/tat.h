#pragma once

#include "base/saturating.h"
#include "core/bucket.h"

// Arithmetic on theoretical arrival times and debts, for the bucket and its price history.

namespace weir::core::gcra {

// A theoretical arrival time: an instant in nanoseconds, and parts of a nanosecond after it.
struct Tat {
  std::int64_t nanos;
  std::int64_t parts;
};

inline Tat tat_of(const State& state) {
  return {ns(instant_of(state.when)), static_cast<std::int64_t>(state.what >> kPartsShift)};
}

inline Tat plus(const EmissionInterval& pace, Tat tat, Int128 span) {
  span += tat.parts;
  if (pace.parts == 1) return {tat.nanos + static_cast<std::int64_t>(span), 0};
  const Int128 nanos = quick_div(span, pace.parts);
  return {tat.nanos + static_cast<std::int64_t>(nanos),
          static_cast<std::int64_t>(span - nanos * pace.parts)};
}

inline Int128 in_parts(const EmissionInterval& pace, Nanos span) {
  return Int128{span.count()} * pace.parts;
}

inline Int128 debt_at(const EmissionInterval& pace, Tat tat, std::int64_t now) {
  if (tat.nanos < now) return 0;
  return Int128{tat.nanos - now} * pace.parts + tat.parts;
}

// The price of any number of permits, at most the longest debt.
Int128 price_of(const EmissionInterval& pace, Int128 permits);

// Converts a debt to the same number of permits at another price, rounded up.
Int128 debt_at_other_price(Int128 debt, const EmissionInterval& from, const EmissionInterval& to);

// The price as encoded in a stamp, rounded down.
std::uint64_t encoded_price(const EmissionInterval& pace);

}  // namespace weir::core::gcra
