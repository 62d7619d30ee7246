#include "weir/limit.h"

#include <utility>

#include "limiter/flaw.h"
#include "limiter/limit_access.h"

namespace weir {
inline namespace v0 {

namespace detail {

struct CoreLimit {
  core::Limit limit;
};

struct LimitAccess {
  static const core::Limit& core_limit(const Limit& limit) noexcept { return limit.core_->limit; }
  static Limit public_limit(core::Limit limit) {
    return Limit{std::make_shared<const CoreLimit>(CoreLimit{std::move(limit)})};
  }
};

}  // namespace detail

Limit::Limit(std::shared_ptr<const detail::CoreLimit> core) noexcept : core_(std::move(core)) {}

Limit::Limit(Rate rate) : Limit(Quota{rate}) {}

Limit::Limit(Quota quota)
    : Limit(limit_of(made_or_throw(core::Bucket::make(core_rate(quota.rate()), quota.burst())))) {}

Limit Limit::window(Permits count, Nanos period) {
  return limit_of(made_or_throw(core::Window::make({.count = count, .period = period}, false)));
}

Limit Limit::sliding(Permits count, Nanos period) {
  return limit_of(made_or_throw(core::SlidingCounter::make({.count = count, .period = period})));
}

Limit Limit::sliding_exact(Permits count, Nanos period) {
  return limit_of(made_or_throw(core::SlidingLog::make({.count = count, .period = period})));
}

Limit Limit::queue(Rate rate, Permits places, Permits undelayed) {
  return limit_of(made_or_throw(core::Bucket::make_queue(core_rate(rate), places, undelayed)));
}

Permits Limit::capacity() const noexcept { return core::capacity(core_->limit); }

}  // namespace v0

const core::Limit& core_limit_of(const Limit& limit) noexcept {
  return detail::LimitAccess::core_limit(limit);
}

Limit limit_of(core::Limit limit) { return detail::LimitAccess::public_limit(std::move(limit)); }

}  // namespace weir
