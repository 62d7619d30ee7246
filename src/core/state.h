#pragma once

#include <cstdint>
#include <type_traits>

#include "base/time.h"

namespace weir::core {

// What is remembered of one key under one limit: 16 bytes whose meaning belongs to the algorithm.
// All zero means "never seen", and a state that has come to rest decides exactly like it, so
// forgetting a state at rest is exact.
//
// The first word always holds an instant, so its top bit is zero: a store may use that bit as a
// lock while the state is not in a step's hands.
struct alignas(16) State {
  std::uint64_t when = 0;
  std::uint64_t what = 0;

  bool never_seen() const { return when == 0 && what == 0; }
  friend bool operator==(const State&, const State&) = default;
};

static_assert(sizeof(State) == 16 && std::is_trivially_copyable_v<State>);

constexpr Instant instant_of(std::uint64_t word) {
  constexpr std::uint64_t without_top_bit = ~std::uint64_t{0} >> 1;
  return instant(static_cast<std::int64_t>(word & without_top_bit));
}
constexpr std::uint64_t word_of(Instant t) { return static_cast<std::uint64_t>(ns(t)); }

// In the place of an instant, in a receipt: no state is like this one.
inline constexpr std::uint64_t kNoInstant = ~std::uint64_t{0};

// The proof of an admission, with which all or part of it can be given back: only what has not
// drained since comes back, and never more than was taken. Giving back updates the receipt.
struct Receipt {
  Instant at{};       // when it was decided, or kPriceChanged
  Permits taken = 0;  // what has not been given back yet
  State before{};
  State after{};
};

// In a receipt of a bucket: the price has changed since. No part of it can be told from what others
// owe any more; all of it can, while nothing else has happened to the key.
inline constexpr Instant kPriceChanged{};

}  // namespace weir::core
