#include "gateway/pacer.h"

#include <algorithm>

namespace weir::gateway {

Request Pacer::request(Permits permits) const {
  Request request{.policy = policy_, .permits = permits};
  key.fill(request);
  return request;
}

void Pacer::pay(std::uint64_t bytes) {
  owed_ += static_cast<Permits>(bytes);
  if (waits_) return;
  paying_ = true;
  pay_on();
  paying_ = false;
}

void Pacer::pay_on() {
  if (asking_ || over_ || owed_ == 0) return;
  asking_ = true;
  waits_ = true;
  const Permits some = std::min(owed_, capacity_);
  engine_.take(request(some), [self = shared_from_this(), some](const Verdict& verdict) {
    self->on_verdict(verdict, some);
  });
}

void Pacer::on_verdict(const Verdict& verdict, Permits paid) {
  asking_ = false;
  Nanos wait = verdict.decision.wait;
  if (verdict) owed_ -= paid;
  if (over_) return end();
  if (!verdict) {
    // What can never be paid, or not be decided, must not stop an exchange for ever.
    const bool never = !verdict.error.empty() || verdict.decision.retry_after == kNever;
    if (never) owed_ = 0;
    wait = never ? Nanos{0} : std::max(verdict.decision.retry_after, Nanos{1'000'000});
  }
  wait > Nanos{0} ? timer_.set_in(wait) : on_time();
}

// (What was paid for under a queue may have to wait with nothing owed.)
void Pacer::on_time() {
  if (owed_ > 0) return pay_on();
  waits_ = false;
  // Who has just paid sees that it need not wait. It is in the middle of passing something on.
  if (resume && !paying_) resume();
}

void Pacer::end() {
  over_ = true;
  resume = nullptr;
  timer_.cancel();
  if (asking_ || owed_ == 0) return;
  engine_.settle(request(std::exchange(owed_, 0)), [self = shared_from_this()](const Verdict&) {});
}

}  // namespace weir::gateway
