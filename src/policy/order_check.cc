#include "policy/order_check.h"

#include <fmt/format.h>

#include "policy/limit_text.h"

namespace weir::policy {

namespace {

class Check {
 public:
  Check(const Policy& policy, Instant now, const Order* since) : policy_(policy), since_(since) {
    for (const Order& order : policy.orders) {
      if (changes_all(order, now)) for_all_.push_back(&order);
    }
  }

  std::optional<std::string> run(Instant now) const {
    if (auto wrong = usual(nullptr)) return wrong;
    for (const Override& own : policy_.overrides) {
      if (auto wrong = of(own, nullptr)) return wrong;
    }
    const PatternIndex index(policy_.overrides);
    for (const BoostedPattern& each :
         boosted_patterns(policy_.orders, policy_.overrides, index, now)) {
      auto wrong = each.own ? of(policy_.overrides[*each.own], &each.by) : usual(&each.by);
      if (wrong) return wrong;
    }
    return std::nullopt;
  }

 private:
  // Checks the limits of keys without an override, of all shifts.
  std::optional<std::string> usual(const Order* boost) const {
    if (auto wrong = of(policy_.limits, boost, "")) return wrong;
    for (const Shift& shift : policy_.schedule) {
      if (auto wrong = of(shift.limits, boost, " of the hours " + to_text(shift.hours))) {
        return wrong;
      }
    }
    return std::nullopt;
  }

  std::optional<std::string> of(const Override& own, const Order* boost) const {
    return of(own.limits, boost, " of the override " + in_quotes(own.pattern.written()));
  }

  std::optional<std::string> of(const std::vector<Limit>& limits, const Order* boost,
                                const std::string& whose) const {
    for (const Limit& limit : limits) {
      if (const auto flaw = flaw_of(limit.limit, boost)) {
        return fmt::format("the limit {}{} cannot be changed by that much: {}",
                           to_text(limit.limit), whose, explain(*flaw));
      }
    }
    return std::nullopt;
  }

  // As in making rules: a change that cannot be applied is skipped, the next one is applied.
  std::optional<core::Flaw> flaw_of(core::Limit limit, const Order* boost) const {
    bool counts = since_ == nullptr;
    const auto fails = [&](const Order& order) -> std::optional<core::Flaw> {
      counts |= &order == since_;
      auto next = changed(limit, order.change);
      if (next) limit = *std::move(next);
      return next || !counts ? std::nullopt : std::optional(next.error());
    };
    if (boost != nullptr) {
      if (const auto flaw = fails(*boost)) return flaw;
    }
    for (const Order* order : for_all_) {
      if (const auto flaw = fails(*order)) return flaw;
    }
    return std::nullopt;
  }

  const Policy& policy_;
  const Order* const since_;
  std::vector<const Order*> for_all_;
};

}  // namespace

std::optional<std::string> why_not_applicable(const Policy& policy, Instant now,
                                              const Order* since) {
  return Check(policy, now, since).run(now);
}

}  // namespace weir::policy
