#include "weir/smooth_limiter.h"

#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/saturating.h"
#include "core/limit.h"
#include "limiter/flaw.h"
#include "limiter/reservation_access.h"
#include "limiter/turn_waiter.h"

namespace weir {
inline namespace v0 {

namespace {

core::Smooth make(Rate rate, std::optional<Nanos> warm_up) {
  if (!warm_up) return made_or_throw(core::Smooth::make(core_rate(rate)));
  if (*warm_up < Nanos{0}) {
    throw std::invalid_argument("weir: a warm-up cannot be negative; leave it out for none");
  }
  return made_or_throw(core::Smooth::make_warming(core_rate(rate), *warm_up));
}

}  // namespace

struct SmoothLimiter::Impl final : detail::Issuer {
  Impl(Rate the_rate, std::optional<Nanos> the_warm_up, const Clock& the_clock)
      : warm_up(the_warm_up),
        clock(the_clock),
        rate(the_rate),
        limit(make(the_rate, the_warm_up)),
        // A state never seen is at rest: all saved up, which means cold under a warm-up.
        state(warm_up ? core::State{} : core::created_empty(clock.now())) {}

  // The data needed to give permits back.
  using RefundInfo = core::Receipt;

  Decision take(Instant now, const core::Ask& ask, RefundInfo& receipt) {
    const std::lock_guard lock(mutex);
    const core::StepResult taken = core::take(limit, state, now, ask);
    receipt = {in_range(now), taken.decision ? ask.cost : 0, state, taken.next};
    state = taken.next;
    return taken.decision;
  }

  bool give_back(const detail::Ticket& ticket) noexcept override {
    return give_back(detail::read_ticket<RefundInfo>(ticket));
  }

  bool give_back(RefundInfo receipt) noexcept {
    const Instant now = clock.now();
    const std::lock_guard lock(mutex);
    const Permits taken = receipt.taken;
    state = refund(limit, state, now, receipt, taken);
    return receipt.taken < taken;
  }

  Decision peek(Instant now, Permits permits) {
    const std::lock_guard lock(mutex);
    return core::peek(limit, state, now, {.cost = permits});
  }

  Decision await_turn(Deadline deadline, Permits permits, std::stop_token stop) {
    return TurnWaiter{*this, clock, permits, std::move(stop)}.until(deadline, true);
  }

  // Constant after construction.
  const std::optional<Nanos> warm_up;
  const Clock& clock;

  // Protected by the mutex.
  std::mutex mutex;
  Rate rate;
  core::Smooth limit;
  core::State state;
};

SmoothLimiter::SmoothLimiter(Rate rate, const Clock& clock)
    : impl_(std::make_unique<Impl>(rate, std::nullopt, clock)) {}

SmoothLimiter::SmoothLimiter(Rate rate, Nanos warm_up, const Clock& clock)
    : impl_(std::make_unique<Impl>(rate, warm_up, clock)) {}

SmoothLimiter::~SmoothLimiter() = default;

Nanos SmoothLimiter::acquire(Permits permits) {
  if (permits < 0) throw std::invalid_argument("weir: permits to acquire cannot be negative");
  return impl_->await_turn(Deadline::never(), permits, {}).wait;
}

Decision SmoothLimiter::acquire(Deadline deadline, Permits permits, std::stop_token stop) {
  return impl_->await_turn(deadline, permits, std::move(stop));
}

Decision SmoothLimiter::try_acquire(Permits permits, Nanos timeout) {
  return impl_->await_turn(Deadline::after(timeout), permits, {});
}

Reservation SmoothLimiter::reserve(Permits permits, Nanos max_wait) noexcept {
  const Instant now = impl_->clock.now();
  Impl::RefundInfo receipt;
  const Decision decision = impl_->take(now, {.cost = permits, .max_wait = max_wait}, receipt);
  return detail::ReservationAccess::make(decision, now, *impl_, receipt);
}

void SmoothLimiter::set_rate(Rate rate) {
  const core::Smooth limit = make(rate, impl_->warm_up);
  const std::lock_guard lock(impl_->mutex);
  impl_->rate = rate;
  impl_->limit = limit;
}

Rate SmoothLimiter::rate() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->rate;
}

}  // namespace v0
}  // namespace weir
