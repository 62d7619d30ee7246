#include "weir/policy_set.h"

#include <stdexcept>

#include "core/plan.h"
#include "engine/policy_set_access.h"
#include "limiter/limit_access.h"
#include "policy/limit_text.h"
#include "weir/parse_limit.h"

namespace weir {
inline namespace v0 {

struct detail::Policies {
  policy::PolicySet set;
};

struct detail::PolicySetAccess {
  static const policy::PolicySet& set_of(const PolicySet& set) { return set.policies_->set; }
  static PolicySet make(policy::PolicySet set) {
    return PolicySet(std::make_shared<const Policies>(Policies{std::move(set)}));
  }
};

namespace {

Result<PolicySet, Error> read(const policy::Source& source) {
  policy::Problems problems;
  auto set = policy::read_policies(source, problems);
  if (problems.empty()) return policy_set_of(std::move(set));
  std::string all;
  for (const policy::Problem& problem : problems) all += source.render(problem);
  return Error{std::move(all)};
}

}  // namespace

PolicySet::PolicySet() : PolicySet(std::make_shared<const detail::Policies>()) {}

PolicySet::PolicySet(std::shared_ptr<const detail::Policies> policies) noexcept
    : policies_(std::move(policies)) {}

Result<PolicySet, Error> PolicySet::parse(std::string_view text, std::string_view name) {
  return read({.name = std::string{name}, .text = std::string{text}});
}

Result<PolicySet, Error> PolicySet::load(const std::string& path) {
  const auto source = policy::Source::read(path);
  if (!source) return Error{source.error()};
  return read(*source);
}

PolicySet& PolicySet::add(std::string name, std::span<const Limit> limits) {
  if (limits.size() > core::kMaxLimits) {
    throw std::invalid_argument("weir: a policy has at most 16 limits");
  }
  policy::PolicySet set = policies_->set;
  policy::Policy& policy = set[std::move(name)];
  policy = {};
  for (const Limit& limit : limits) policy.limits.push_back({.limit = core_limit_of(limit)});
  *this = policy_set_of(std::move(set));
  return *this;
}

std::vector<std::string> PolicySet::names() const {
  std::vector<std::string> names;
  for (const auto& [name, policy] : policies_->set) names.push_back(name);
  return names;
}

Result<Limit, Error> parse_limit(std::string_view text) {
  const policy::Source source{.name = "limit", .text = std::string{text}};
  auto limit = policy::parse_limit(text);
  if (!limit) return Error{source.render(limit.error())};
  return limit_of(*std::move(limit));
}

std::string to_string(const Limit& limit) { return policy::to_text(core_limit_of(limit)); }

}  // namespace v0

const policy::PolicySet& policies_of(const PolicySet& set) noexcept {
  return detail::PolicySetAccess::set_of(set);
}

PolicySet policy_set_of(policy::PolicySet policies) {
  return detail::PolicySetAccess::make(std::move(policies));
}

}  // namespace weir
