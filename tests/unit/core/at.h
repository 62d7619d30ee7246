#pragma once

#include <chrono>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/limit.h"
#include "core/price_history.h"

namespace weir::core {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// The start of every test: 2026-01-01T00:00:00Z.
inline constexpr Instant kStart = instant(1'767'225'600'000'000'000);

inline Rate per(std::int64_t count, Nanos period) { return {count, 1, period}; }
inline Rate per_second(std::int64_t count) { return per(count, seconds{1}); }

// One key under one limit, at instants counted from kStart.
template <typename L>
struct Key {
  L limit;
  State state{};
  PriceTimeline prices{};

  void convert_state(Nanos at) {
    state = state_under_current_limit(limit, state, kStart + at, &prices);
  }
  Decision take(Nanos at, const Ask& ask = {}) {
    convert_state(at);
    const StepResult taken = core::take(limit, state, kStart + at, ask);
    state = taken.next;
    return taken.decision;
  }
  // Takes and returns the receipt.
  Receipt taken(Nanos at, const Ask& ask = {}) {
    convert_state(at);
    const State before = state;
    const Decision decision = take(at, ask);
    return {kStart + at, decision ? ask.cost : 0, before, state};
  }
  Decision peek(Nanos at, const Ask& ask = {}) const {
    return core::peek(limit, state_under_current_limit(limit, state, kStart + at, &prices),
                      kStart + at, ask);
  }
  void debit(Nanos at, Permits cost) {
    convert_state(at);
    state = core::debit(limit, state, kStart + at, cost);
  }
  void refund(Nanos at, Receipt& receipt, Permits back) {
    convert_state(at);
    if constexpr (std::is_same_v<L, Bucket>) {
      receipt = receipt_under_current_limit(limit, receipt, kStart + at, &prices);
    }
    state = core::refund(limit, state, kStart + at, receipt, back);
  }
  void change(const L& next, Instant now) requires std::is_same_v<L, Bucket> {
    limit = prices.change(next, limit, now);
  }
  // The number of admitted calls out of `n` at one instant.
  int admits(Nanos at, int n) {
    int admitted = 0;
    for (int i = 0; i < n; ++i) admitted += take(at) ? 1 : 0;
    return admitted;
  }
};

template <typename L>
Key<L> key(const Result<L, Flaw>& made) {
  return {*made};
}

}  // namespace weir::core
