#pragma once

#include <cstdint>
#include <type_traits>

#include "base/time.h"

namespace weir::core {

// The state of one key under one limit: 16 bytes whose meaning depends on the algorithm. All zero
// means "never seen". A state at rest decides exactly like one never seen, so evicting it changes
// no decision.
//
// The first word always holds an instant, so its top bit is zero. A store may use that bit as a
// lock, but must clear it before it passes the state to an algorithm.
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

// Marks the `after` state of a receipt as invalid: no real state compares equal to it.
inline constexpr std::uint64_t kNoInstant = ~std::uint64_t{0};

// The record of an admission, needed to give permits back: at most what was taken, and only what
// has not drained since. A refund updates the receipt.
struct Receipt {
  Instant at{};       // time of the decision, or kPriceChanged
  Permits taken = 0;  // not given back yet
  State before{};
  State after{};
};

// In a receipt of a bucket: the price has changed since. A part of it can no longer be told apart
// from the debt of others; all of it can be given back while the key has not changed.
inline constexpr Instant kPriceChanged{};

}  // namespace weir::core
