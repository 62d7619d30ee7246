#include "cli/bench/zipf.h"

#include <algorithm>
#include <cmath>

namespace weir::cli::bench {

namespace {

// (e^x - 1) / x, numerically stable near 0.
double growth(double x) { return std::abs(x) > 1e-8 ? std::expm1(x) / x : 1 + x / 2; }

// log(1 + x) / x, numerically stable near 0.
double shrinkage(double x) { return std::abs(x) > 1e-8 ? std::log1p(x) / x : 1 - x / 2; }

}  // namespace

Zipf::Zipf(std::uint64_t count, double exponent)
    : count_(static_cast<double>(count)),
      exponent_(exponent),
      first_area_(area(1.5) - 1),
      last_area_(area(count_ + 0.5)),
      sure_(2 - area_inverse(area(2.5) - curve(2))) {}

double Zipf::curve(double x) const { return std::exp(-exponent_ * std::log(x)); }

// (x^(1-s) - 1) / (1-s), which for s = 1 becomes log(x).
double Zipf::area(double x) const {
  const double log = std::log(x);
  return growth((1 - exponent_) * log) * log;
}

double Zipf::area_inverse(double area) const {
  // Rounding must not produce a value below -1, for which log1p is not defined.
  const double scaled = std::max(area * (1 - exponent_), -1.0);
  return std::exp(shrinkage(scaled) * area);
}

std::uint64_t Zipf::next(Random& random) const {
  for (;;) {
    const double chosen = last_area_ + random.unit() * (first_area_ - last_area_);
    const double x = area_inverse(chosen);
    const double rank = std::clamp(std::floor(x + 0.5), 1.0, count_);
    if (rank - x <= sure_ || chosen >= area(rank + 0.5) - curve(rank)) {
      return static_cast<std::uint64_t>(rank);
    }
  }
}

}  // namespace weir::cli::bench
