#pragma once

#include <chrono>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/limit.h"

namespace weir::core {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// Second 0 of a test: 2026-01-01T00:00:00Z.
inline constexpr Instant kStart = instant(1'767'225'600'000'000'000);

inline Rate per(std::int64_t count, Nanos period) { return {count, 1, period}; }
inline Rate per_second(std::int64_t count) { return per(count, seconds{1}); }

// One key under one limit, at instants counted from kStart.
template <typename L>
struct Key {
  L limit;
  State state{};

  Decision take(Nanos at, const Ask& ask = {}) {
    const Taken taken = core::take(limit, state, kStart + at, ask);
    state = taken.next;
    return taken.decision;
  }
  // As above, with a receipt for what was taken.
  Receipt taken(Nanos at, const Ask& ask = {}) {
    const State before = state;
    const Decision decision = take(at, ask);
    return {kStart + at, decision ? ask.cost : 0, before, state};
  }
  Decision peek(Nanos at, const Ask& ask = {}) const {
    return core::peek(limit, state, kStart + at, ask);
  }
  void debit(Nanos at, Permits cost) { state = core::debit(limit, state, kStart + at, cost); }
  void refund(Nanos at, Receipt& receipt, Permits back) {
    state = core::refund(limit, state, kStart + at, receipt, back);
  }
  void change(const L& next, Instant now) requires std::is_same_v<L, Bucket> {
    limit = succeeding(next, limit, now);
  }
  // How many of `n` single calls at one instant pass.
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
