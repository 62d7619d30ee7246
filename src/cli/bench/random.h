#pragma once

#include <cstdint>

#include "base/int128.h"

namespace weir::cli::bench {

// A SplitMix64 generator. The same seed gives the same numbers with any standard library, unlike
// the distributions of <random>.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
  }

  // From 0 up to, but not including, 1.
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  // From 0 up to, but not including, `end`.
  std::uint64_t below(std::uint64_t end) {
    return static_cast<std::uint64_t>((UInt128{next()} * end) >> 64);
  }

 private:
  std::uint64_t state_;
};

}  // namespace weir::cli::bench
