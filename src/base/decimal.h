#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/int128.h"

namespace weir {

// An exact decimal number: mantissa × 10^exponent. It is not rounded to a binary fraction.
struct Decimal {
  Int128 mantissa = 0;
  int exponent = 0;

  // Parses all of `text` as a JSON number: -12, 0.5, 1.25e-3. Fraction digits beyond 36 digits in
  // total are dropped. A whole part of more than 36 digits is an error.
  static std::optional<Decimal> parse(std::string_view text);

  // The number times 10^places, rounded to the nearest integer (halves away from zero). Nothing if
  // it does not fit in 64 bits.
  std::optional<std::int64_t> shifted(int places) const;
};

}  // namespace weir
