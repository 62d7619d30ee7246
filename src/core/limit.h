#pragma once

#include <type_traits>
#include <variant>

#include "base/saturating.h"

#include "core/bucket.h"
#include "core/holders.h"
#include "core/nginx.h"
#include "core/redis_cell.h"
#include "core/sliding_counter.h"
#include "core/sliding_log.h"
#include "core/smooth.h"
#include "core/window.h"

namespace weir::core {

// A limit by any of the algorithms: a plain value with its parameters and the values derived from
// them.
using Limit = std::variant<Bucket, NginxQueue, Smooth, Window, SlidingCounter, CalendarWindow,
                           SlidingLog, Concurrency, RedisCell>;

// True for limits whose data for a key is a single State.
template <typename L>
inline constexpr bool kHasState = !std::is_same_v<L, SlidingLog> && !std::is_same_v<L, Concurrency>;

// The operations on a single limit. Several limits at once: core/plan.h.

template <typename L>
requires kHasState<L> Decision describe(const L& limit, const Evaluation& evaluation,
                                        const State& state, Instant now) {
  return {.outcome = evaluation.outcome,
          .limit = capacity(limit),
          .remaining = remaining(limit, state, now),
          .retry_after = evaluation.retry_after,
          .reset_after = until(in_range(now), rest_at(limit, state, now)),
          .wait = evaluation.wait};
}

// Decides, and charges if the call passes. The bucket has an overload of its own, for speed.
template <typename L>
requires kHasState<L> StepResult take(const L& limit, const State& state, Instant now,
                                      const Ask& ask = {}) {
  const Evaluation evaluation = decide(limit, state, now, ask);
  return {describe(limit, evaluation, evaluation.next, now), evaluation.next};
}

// The decision that `take` would give, with the present remaining permits. Changes nothing.
template <typename L>
requires kHasState<L> Decision peek(const L& limit, const State& state, Instant now,
                                    const Ask& ask = {}) {
  return describe(limit, decide(limit, state, now, ask), state, now);
}

inline Permits capacity(const Limit& limit) {
  return std::visit([](const auto& l) { return capacity(l); }, limit);
}

// True for queues: their callers wait for their turn by default.
inline bool is_queue(const Limit& limit) {
  if (const auto* bucket = std::get_if<Bucket>(&limit)) return bucket->queue;
  return std::holds_alternative<NginxQueue>(limit);
}

}  // namespace weir::core
