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

// The same, copied so that no load is wider than the stores before it: such a load has to wait for
// them, and a compiler that sees words keeps them in registers.
[[gnu::always_inline]] inline Decision word_by_word(const Decision& d) {
  return {.outcome = d.outcome,
          .limit = d.limit,
          .remaining = d.remaining,
          .retry_after = d.retry_after,
          .reset_after = d.reset_after,
          .wait = d.wait};
}
[[gnu::always_inline]] inline Taken word_by_word(const Taken& t) {
  return {.decision = word_by_word(t.decision), .next = {t.next.when, t.next.what}};
}

inline Choice refused(Nanos retry_after, const State& unchanged) {
  return {.outcome = Outcome::limited, .retry_after = retry_after, .next = unchanged};
}

inline Choice impossible(const State& unchanged) {
  return {.outcome = Outcome::impossible, .retry_after = kNever, .next = unchanged};
}

}  // namespace weir::core
