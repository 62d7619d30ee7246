#pragma once

#include "base/saturating.h"
#include "core/limit.h"
#include "weir/clock.h"
#include "weir/deadline.h"

namespace weir {

// True if a limit can promise a turn in the future: permits are taken now and used later. Other
// limits refuse until the moment at which they admit.
inline bool reserves_turns(const core::Limit& limit) {
  return std::holds_alternative<core::Bucket>(limit) ||
         std::holds_alternative<core::NginxQueue>(limit) ||
         std::holds_alternative<core::Smooth>(limit);
}

// Waits for a turn of a Taker:
//   take(now, ask, info) → Decision   fills in the RefundInfo that give_back needs
//   give_back(info)
//   peek(now, cost) → Decision
// Under a limit that reserves turns, takes permits once and sleeps until the turn. Under any other
// limit, retries at each retry_after.
template <typename Taker>
class TurnWaiter {
 public:
  TurnWaiter(Taker& taker, const Clock& clock, Permits cost, std::stop_token stop)
      : taker_(taker), clock_(clock), cost_(cost), stop_(std::move(stop)) {}

  Decision until(Deadline deadline, bool reserves) {
    if (stop_.stop_requested()) return stopped();
    const Instant now = clock_.now();
    const Instant end = deadline.resolve(now);
    return reserves ? await_turn(now, end) : retry_until(now, end);
  }

 private:
  using RefundInfo = typename Taker::RefundInfo;

  Decision await_turn(Instant now, Instant end) {
    RefundInfo info;
    const Decision decision =
        taker_.take(now, {.cost = cost_, .max_wait = weir::until(now, end)}, info);
    if (!decision || decision.wait == Nanos{0}) return decision;
    if (clock_.sleep_until(later(now, decision.wait), stop_)) return decision;
    taker_.give_back(info);
    return stopped();
  }

  Decision retry_until(Instant start, Instant end) {
    for (Instant now = start;; now = clock_.now()) {
      RefundInfo info;
      Decision decision = taker_.take(now, {.cost = cost_}, info);
      if (decision) decision.wait = between(start, now);
      const Instant retry_at = later(now, decision.retry_after);
      if (decision.outcome != Outcome::limited || retry_at > end) return decision;
      if (!clock_.sleep_until(retry_at, stop_)) return stopped();
    }
  }

  // The decision for a caller that was stopped.
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
