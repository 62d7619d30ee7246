#include "core/rate.h"

#include "base/saturating.h"

namespace weir::core {

namespace {

Int128 greatest_common_divisor(Int128 a, Int128 b) {
  while (b != 0) {
    const Int128 rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

}  // namespace

Result<EmissionInterval, Flaw> EmissionInterval::of(const Rate& rate, std::int64_t max_parts) {
  if (rate.count <= 0 || rate.scale <= 0) return Flaw::rate_not_positive;
  if (rate.scale > kMaxScale) return Flaw::too_many_decimals;
  if (rate.period <= Nanos{0}) return Flaw::period_not_positive;
  if (rate.period > kLongestDebt) return Flaw::period_too_long;

  Int128 nanos = Int128{rate.period.count()} * rate.scale;  // nanos / count: time per permit
  if (nanos / rate.count > kLongestDebt.count()) return Flaw::rate_too_low;
  constexpr std::int64_t max_per_nano = kMaxRate / 1'000'000'000;
  if ((rate.count - 1) / max_per_nano >= nanos) return Flaw::rate_too_high;

  const Int128 common = greatest_common_divisor(nanos, rate.count);
  const std::int64_t parts = static_cast<std::int64_t>(rate.count / common);
  if (parts <= max_parts) return EmissionInterval{.parts = parts, .price = nanos / common};

  // Divides before multiplying: the product could exceed 128 bits.
  const Int128 whole = nanos / rate.count;
  const Int128 rest = nanos % rate.count;
  return EmissionInterval{.parts = max_parts,
                          .price = whole * max_parts + ceil_div(rest * max_parts, rate.count)};
}

}  // namespace weir::core
