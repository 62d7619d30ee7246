#include "gateway/admission.h"

#include <fmt/format.h>

#include <utility>

#include "store/random_name.h"

namespace weir::gateway {

namespace {

// A holder name that is unique in the fleet.
std::string next_holder() {
  thread_local const std::string thread = store::random_name();
  thread_local std::uint64_t count = 0;
  return fmt::format("{}-{}", thread, ++count);
}

// For one thread. Beyond this, permits come back when their hold time ends.
constexpr std::size_t kMaxLeaveRetries = 10'000;

}  // namespace

void LeaveRetries::add(std::shared_ptr<Admission> admission) {
  if (admissions_.size() < kMaxLeaveRetries) admissions_.push_back(std::move(admission));
}

void LeaveRetries::retry_all() {
  for (const auto& admission : std::exchange(admissions_, {})) admission->retry_leave();
}

Request Admission::request() const {
  Request request{.policy = policy_,
                  .permits = permits_,
                  .skip_missing = key.status() == RequestKey::KeyStatus::empty};
  key.fill(request);
  return request;
}

void Admission::ask(std::string_view policy, const PolicyTraits& traits, Permits permits,
                    bool needs_receipt, AdmissionCallback& callback) {
  callback_ = &callback;
  policy_.assign(policy);
  permits_ = permits;
  holder_.clear();
  has_receipt_ = needs_receipt && !traits.has_concurrency;
  admitted_ = fleet_unsure_ = false;
  hold_time_ = traits.hold_time;
  pending_ = true;
  if (traits.has_concurrency) {
    holder_ = next_holder();
    engine_.enter(request(), holder_, [self = shared_from_this()](const Verdict& verdict) {
      self->on_verdict(verdict);
    });
  } else if (needs_receipt) {
    engine_.take(request(), [self = shared_from_this()](const Verdict& verdict, Receipt receipt) {
      self->receipt_ = std::move(receipt);
      self->on_verdict(verdict);
    });
  } else {
    const auto now = engine_.take_now_or(request(), [this] {
      return [self = shared_from_this()](const Verdict& verdict) { self->on_verdict(verdict); };
    });
    if (now) on_verdict(*now);
  }
}

void Admission::on_verdict(const Verdict& verdict) {
  pending_ = false;
  admitted_ = static_cast<bool>(verdict);
  // A question that timed out may still reach the fleet and be counted there.
  fleet_unsure_ = verdict.degraded && !holder_.empty();
  if (fleet_unsure_ && !admitted_) leave();
  if (callback_ != nullptr) return callback_->on_verdict(verdict);
  return_all();
}

void Admission::renew_hold() {
  if (!admitted_ || holder_.empty()) return;
  engine_.enter(request(), holder_, [self = shared_from_this()](const Verdict&) {});
}

void Admission::finish(Permits correction) {
  callback_ = nullptr;
  if (!admitted_) return;
  admitted_ = false;
  if (!holder_.empty()) leave();
  if (correction != 0) settle(correction);
}

void Admission::return_all() {
  callback_ = nullptr;
  if (pending_ || !admitted_)
    return;  // (a verdict that is still to come is returned when it comes)
  admitted_ = false;
  if (!holder_.empty()) leave();
  if (has_receipt_) settle(-permits_);
}

void Admission::leave() {
  hold_end_ = Clock::now() + hold_time_;
  retry_leave();
}

void Admission::retry_leave() {
  if (Clock::now() >= hold_end_) return;
  engine_.leave(request(), holder_,
                [self = shared_from_this()](const Result<bool, OperationError>& left) {
                  self->on_left(left);
                });
}

// (A caller that this node admitted without the fleet may be counted in the fleet as well.)
void Admission::on_left(const Result<bool, OperationError>& left) {
  const bool unconfirmed = !left && left.error().fleet;
  if (unconfirmed || fleet_unsure_) leave_retries_.add(shared_from_this());
  if (!unconfirmed) fleet_unsure_ = false;
}

// A negative correction needs a receipt.
void Admission::settle(Permits delta) {
  Request correction = request();
  correction.permits = delta;
  const auto done = [self = shared_from_this()](const Verdict&) {};
  if (has_receipt_) return engine_.settle(correction, receipt_, done);
  if (delta > 0) engine_.settle(correction, done);
}

}  // namespace weir::gateway
