#include "weir/limit.h"

#include <utility>

#include "limiter/flaw.h"
#include "limiter/limit_access.h"

namespace weir {
inline namespace v0 {

namespace detail {

struct Rule {
  core::Limit limit;
};

struct LimitAccess {
  static const core::Limit& rule_of(const Limit& limit) noexcept { return limit.rule_->limit; }
  static Limit limit_of(core::Limit rule) {
    return Limit{std::make_shared<const Rule>(Rule{std::move(rule)})};
  }
};

}  // namespace detail

Limit::Limit(std::shared_ptr<const detail::Rule> rule) noexcept : rule_(std::move(rule)) {}

Limit::Limit(Rate rate) : Limit(Quota{rate}) {}

Limit::Limit(Quota quota)
    : Limit(limit_of(made_or_throw(core::Bucket::make(core_rate(quota.rate()), quota.burst())))) {}

Limit Limit::window(Permits count, Nanos period) {
  return limit_of(made_or_throw(core::Window::make({.count = count, .period = period}, false)));
}

Limit Limit::sliding(Permits count, Nanos period) {
  return limit_of(made_or_throw(core::Sliding::make({.count = count, .period = period})));
}

Limit Limit::sliding_exact(Permits count, Nanos period) {
  return limit_of(made_or_throw(core::ExactLog::make({.count = count, .period = period})));
}

Limit Limit::queue(Rate rate, Permits places, Permits undelayed) {
  return limit_of(made_or_throw(core::Bucket::make_queue(core_rate(rate), places, undelayed)));
}

Permits Limit::capacity() const noexcept { return core::capacity(rule_->limit); }

}  // namespace v0

const core::Limit& rule_of(const Limit& limit) noexcept {
  return detail::LimitAccess::rule_of(limit);
}

Limit limit_of(core::Limit rule) { return detail::LimitAccess::limit_of(std::move(rule)); }

}  // namespace weir
