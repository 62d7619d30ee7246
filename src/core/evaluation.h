#pragma once

#include "core/decision.h"
#include "core/state.h"

namespace weir::core {

// The result of evaluating a call against one limit, before anything is charged: with several
// limits in one decision, either all are charged or none. Every algorithm provides the same few
// pure functions of (limit, state, now, ask); `take` and `peek` in core/limit.h combine them.
struct Evaluation {
  Outcome outcome = Outcome::allowed;
  Nanos retry_after{0};
  Nanos wait{0};
  State next{};  // the state after the charge; unchanged unless allowed
};

// The result of a take: the decision and the next state, which is unchanged if refused.
struct StepResult {
  Decision decision;
  State next;
};

// Copies field by field. A wide load of fields that were just stored one by one would stall,
// because store-to-load forwarding fails; single words can also stay in registers.
[[gnu::always_inline]] inline Decision word_by_word(const Decision& d) {
  return {.outcome = d.outcome,
          .limit = d.limit,
          .remaining = d.remaining,
          .retry_after = d.retry_after,
          .reset_after = d.reset_after,
          .wait = d.wait};
}
[[gnu::always_inline]] inline StepResult word_by_word(const StepResult& t) {
  return {.decision = word_by_word(t.decision), .next = {t.next.when, t.next.what}};
}

inline Evaluation refused(Nanos retry_after, const State& unchanged) {
  return {.outcome = Outcome::limited, .retry_after = retry_after, .next = unchanged};
}

inline Evaluation impossible(const State& unchanged) {
  return {.outcome = Outcome::impossible, .retry_after = kNever, .next = unchanged};
}

}  // namespace weir::core
