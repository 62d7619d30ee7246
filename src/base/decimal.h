#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/int128.h"

namespace weir {

// A decimal number as it was written, exactly: mantissa × 10^exponent. No binary fraction comes
// between what somebody typed and what is reckoned with.
struct Decimal {
  Int128 mantissa = 0;
  int exponent = 0;

  // All of `text`, as JSON writes numbers: -12, 0.5, 1.25e-3. Digits beyond the 36th of a fraction
  // are dropped; a whole part of more digits is not accepted.
  static std::optional<Decimal> parse(std::string_view text);

  // Times 10^places, rounded to the nearest whole number (halves away from zero); nothing if that
  // exceeds 64 bits.
  std::optional<std::int64_t> shifted(int places) const;
};

}  // namespace weir
