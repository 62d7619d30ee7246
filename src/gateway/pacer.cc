#include "gateway/pacer.h"

#include <algorithm>

namespace weir::gateway {

Request Pacer::request(Permits permits) const {
  Request request{.policy = policy_, .permits = permits};
  key.fill(request);
  return request;
}

void Pacer::charge(std::uint64_t bytes) {
  unpaid_ += static_cast<Permits>(bytes);
  if (paused_) return;
  charging_ = true;
  charge_next();
  charging_ = false;
}

void Pacer::charge_next() {
  if (pending_ || ended_ || unpaid_ == 0) return;
  pending_ = true;
  paused_ = true;
  const Permits batch = std::min(unpaid_, capacity_);
  engine_.take(request(batch), [self = shared_from_this(), batch](const Verdict& verdict) {
    self->on_verdict(verdict, batch);
  });
}

void Pacer::on_verdict(const Verdict& verdict, Permits charged) {
  pending_ = false;
  Nanos wait = verdict.decision.wait;
  if (verdict) unpaid_ -= charged;
  if (ended_) return end();
  if (!verdict) {
    // An error, or a take that can never be admitted, must not stall the exchange for ever.
    const bool never = !verdict.error.empty() || verdict.decision.retry_after == kNever;
    if (never) unpaid_ = 0;
    wait = never ? Nanos{0} : std::max(verdict.decision.retry_after, Nanos{1'000'000});
  }
  wait > Nanos{0} ? timer_.set_in(wait) : on_timer();
}

// (A take admitted by a queue may have to wait although nothing is unpaid.)
void Pacer::on_timer() {
  if (unpaid_ > 0) return charge_next();
  paused_ = false;
  // The caller of `charge` checks is_paused itself; resuming inside it would be re-entrant.
  if (resume && !charging_) resume();
}

void Pacer::end() {
  ended_ = true;
  resume = nullptr;
  timer_.cancel();
  if (pending_ || unpaid_ == 0) return;
  engine_.settle(request(std::exchange(unpaid_, 0)),
                 [self = shared_from_this()](const Verdict&) {});
}

}  // namespace weir::gateway
