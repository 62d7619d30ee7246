#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/limit.h"
#include "weir/result.h"

namespace weir {
inline namespace v0 {

namespace detail {
struct PolicySetAccess;
struct Policies;
}  // namespace detail

// Named policies, as in a policy file: what an Engine enforces.
// A value; copies share their contents. Safe to read from many threads; not while it is changed.
class PolicySet {
 public:
  // An empty set.
  PolicySet();

  // Parses policies in YAML. The error lists every mistake with name:line:column, the line, a caret
  // and what to write instead.
  static Result<PolicySet, Error> parse(std::string_view text, std::string_view name = "policies");

  // Loads policies from a YAML file.
  static Result<PolicySet, Error> load(const std::string& path);

  // Adds a policy whose limits all count by the whole key. Replaces one of the same name.
  PolicySet& add(std::string name, std::span<const Limit> limits);
  PolicySet& add(std::string name, const Limit& limit) { return add(std::move(name), {&limit, 1}); }

  std::vector<std::string> names() const;

 private:
  friend struct detail::PolicySetAccess;
  explicit PolicySet(std::shared_ptr<const detail::Policies> policies) noexcept;

  std::shared_ptr<const detail::Policies> policies_;
};

}  // namespace v0
}  // namespace weir
