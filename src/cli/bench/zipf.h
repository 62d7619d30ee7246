#pragma once

#include <cstdint>

#include "cli/bench/random.h"

namespace weir::cli::bench {

// Ranks from 1 to `count`, rank k as often as k^-exponent says: a few are asked about all the time,
// most hardly ever, as it is with users, products and words.
//
// By rejection-inversion (Hörmann and Derflinger, 1996), with neither a table nor a sum over all
// ranks. The area under the smooth curve x^-s between k - ½ and k + ½ is at least the bar k^-s, as
// the curve is convex. So: choose a point under the whole curve by inverting its integral; the rank
// is the x rounded, and it stands if the point is within the part of that area that the bar fills,
// which is nearly always.
class Zipf {
 public:
  Zipf(std::uint64_t count, double exponent);

  std::uint64_t next(Random& random) const;

 private:
  double curve(double x) const;
  double area(double x) const;  // under the curve, from 1 to x
  double area_inverse(double area) const;

  double count_;
  double exponent_;
  double first_area_;  // where choosing starts: just the bar of rank 1 left of 1½
  double last_area_;
  double sure_;  // that close above x a rank always stands
};

}  // namespace weir::cli::bench
