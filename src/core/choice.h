#pragma once

#include "core/decision.h"
#include "core/state.h"

namespace weir::core {

// What an algorithm says to an ask, before anything is charged: with several limits in one
// decision, either all charge or none. Every algorithm is the same handful of pure functions of
// (limit, state, now, ask); `take` and `peek` in core/limit.h put them together.
struct Choice {
  Outcome outcome = Outcome::allowed;
  Nanos retry_after{0};
  Nanos wait{0};
  State next{};  // the state once charged; the given one unless allowed
};

// What comes of a take: the answer, and the state from then on, which is the given one if refused.
struct Taken {
  Decision decision;
  State next;
};

inline Choice refused(Nanos retry_after, const State& unchanged) {
  return {.outcome = Outcome::limited, .retry_after = retry_after, .next = unchanged};
}

inline Choice impossible(const State& unchanged) {
  return {.outcome = Outcome::impossible, .retry_after = kNever, .next = unchanged};
}

}  // namespace weir::core
