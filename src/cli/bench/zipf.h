#pragma once

#include <cstdint>

#include "cli/bench/random.h"

namespace weir::cli::bench {

// Random ranks from 1 to `count` with a Zipf distribution: the probability of rank k is
// proportional to k^-exponent. A few ranks are frequent and most are rare, as with users, products
// and words.
//
// Method: rejection-inversion (Hörmann and Derflinger, 1996), without a table or a sum over all
// ranks. The curve x^-s is convex, so the area under it from k - ½ to k + ½ is at least k^-s, the
// area of the bar of rank k. `next` draws a point under the whole curve by inverting its integral,
// rounds x to the rank, and accepts it if the point lies in the part of the area that the bar
// covers, which is nearly always so.
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
  double first_area_;  // lower end of the draw: left of 1½ only the bar of rank 1
  double last_area_;
  double sure_;  // a rank at most this far above x is always accepted
};

}  // namespace weir::cli::bench
