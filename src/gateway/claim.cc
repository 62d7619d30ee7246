#include "gateway/claim.h"

#include <fmt/format.h>

#include <utility>

#include "store/random_name.h"

namespace weir::gateway {

namespace {

// Different from all others of the fleet.
std::string next_holder() {
  thread_local const std::string thread = store::random_name();
  thread_local std::uint64_t count = 0;
  return fmt::format("{}-{}", thread, ++count);
}

// Of one thread. More are left to their leases.
constexpr std::size_t kMostFarewells = 10'000;

}  // namespace

void Farewells::add(std::shared_ptr<Claim> claim) {
  if (claims_.size() < kMostFarewells) claims_.push_back(std::move(claim));
}

void Farewells::look_around() {
  for (const auto& claim : std::exchange(claims_, {})) claim->leave_again();
}

Request Claim::request() const {
  Request request{.policy = policy_,
                  .permits = permits_,
                  .skip_missing = key.status() == MadeKey::Status::empty};
  key.fill(request);
  return request;
}

void Claim::ask(std::string_view policy, const PolicyTraits& traits, Permits permits,
                bool gives_back, Claimant& claimant) {
  claimant_ = &claimant;
  policy_.assign(policy);
  permits_ = permits;
  holder_.clear();
  gives_back_ = gives_back && !traits.enters;
  holds_ = unsure_ = false;
  lease_ = traits.lease;
  asking_ = true;
  if (traits.enters) {
    holder_ = next_holder();
    engine_.enter(request(), holder_, [self = shared_from_this()](const Verdict& verdict) {
      self->on_verdict(verdict);
    });
  } else if (gives_back) {
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

void Claim::on_verdict(const Verdict& verdict) {
  asking_ = false;
  holds_ = static_cast<bool>(verdict);
  // A question that nobody answered in time may still have been heard, or be.
  unsure_ = verdict.degraded && !holder_.empty();
  if (unsure_ && !holds_) leave();
  if (claimant_ != nullptr) return claimant_->on_verdict(verdict);
  give_back();
}

void Claim::renew() {
  if (!holds_ || holder_.empty()) return;
  engine_.enter(request(), holder_, [self = shared_from_this()](const Verdict&) {});
}

void Claim::end(Permits correction) {
  claimant_ = nullptr;
  if (!holds_) return;
  holds_ = false;
  if (!holder_.empty()) leave();
  if (correction != 0) settle(correction);
}

void Claim::give_back() {
  claimant_ = nullptr;
  if (asking_ || !holds_) return;  // (what comes yet is given back when it does)
  holds_ = false;
  if (!holder_.empty()) leave();
  if (gives_back_) settle(-permits_);
}

void Claim::leave() {
  until_ = Clock::now() + lease_;
  leave_again();
}

void Claim::leave_again() {
  if (Clock::now() >= until_) return;
  engine_.leave(request(), holder_, [self = shared_from_this()](const Result<bool, Trouble>& left) {
    self->on_left(left);
  });
}

// (Who was let in by this node alone, and has left it, may have a seat in the fleet as well.)
void Claim::on_left(const Result<bool, Trouble>& left) {
  const bool unheard = !left && left.error().fleet;
  if (unheard || unsure_) farewells_.add(shared_from_this());
  if (!unheard) unsure_ = false;
}

// Less than was taken can only be given back with a receipt.
void Claim::settle(Permits delta) {
  Request correction = request();
  correction.permits = delta;
  const auto done = [self = shared_from_this()](const Verdict&) {};
  if (gives_back_) return engine_.settle(correction, receipt_, done);
  if (delta > 0) engine_.settle(correction, done);
}

}  // namespace weir::gateway
