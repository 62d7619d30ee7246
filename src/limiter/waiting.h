#pragma once

#include "base/saturating.h"
#include "core/limit.h"
#include "weir/clock.h"
#include "weir/deadline.h"

namespace weir {

// Whether a limit lets in callers before their turn, who then wait for it. The others say no until
// the moment they say yes.
inline bool lends_turns(const core::Limit& limit) {
  return std::holds_alternative<core::Bucket>(limit) ||
         std::holds_alternative<core::NginxQueue>(limit) ||
         std::holds_alternative<core::Smooth>(limit);
}

// Waiting for a turn, for whatever can
//   take(now, ask, note) → Decision   the note is what it takes to give back
//   give_back(note)
//   peek(now, cost) → Decision
// Either the turn lies ahead and is taken at once, or, under a limit that lends none, there is a
// try each time there is a chance.
template <typename Taker>
class Waiting {
 public:
  Waiting(Taker& taker, const Clock& clock, Permits cost, std::stop_token stop)
      : taker_(taker), clock_(clock), cost_(cost), stop_(std::move(stop)) {}

  Decision until(Deadline deadline, bool lends) {
    if (stop_.stop_requested()) return stopped();
    const Instant now = clock_.now();
    const Instant end = deadline.resolve(now);
    return lends ? await_turn(now, end) : await_chance(now, end);
  }

 private:
  using Note = typename Taker::Note;

  Decision await_turn(Instant now, Instant end) {
    Note note;
    const Decision decision =
        taker_.take(now, {.cost = cost_, .max_wait = weir::until(now, end)}, note);
    if (!decision || decision.wait == Nanos{0}) return decision;
    if (clock_.sleep_until(later(now, decision.wait), stop_)) return decision;
    taker_.give_back(note);
    return stopped();
  }

  Decision await_chance(Instant start, Instant end) {
    for (Instant now = start;; now = clock_.now()) {
      Note note;
      Decision decision = taker_.take(now, {.cost = cost_}, note);
      if (decision) decision.wait = between(start, now);
      const Instant chance = later(now, decision.retry_after);
      if (decision.outcome != Outcome::limited || chance > end) return decision;
      if (!clock_.sleep_until(chance, stop_)) return stopped();
    }
  }

  // What somebody is told who did not want to wait any longer.
  Decision stopped() {
    Decision decision = taker_.peek(clock_.now(), cost_);
    if (decision) decision.outcome = Outcome::limited;
    return decision;
  }

  Taker& taker_;
  const Clock& clock_;
  const Permits cost_;
  const std::stop_token stop_;
};

}  // namespace weir
