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

// Policies by name, as a policy file has them: what an Engine enforces.
// A value; copies share what they hold. Reading from any thread, changing from one.
class PolicySet {
 public:
  // None. Policies can be added.
  PolicySet();

  // The policies of a text in YAML. The error lists everything that is wrong, each with
  // name:line:column, the line, a caret and what to write instead.
  static Result<PolicySet, Error> parse(std::string_view text, std::string_view name = "policies");

  // The same from a file.
  static Result<PolicySet, Error> load(const std::string& path);

  // A policy made of limits that all count by the whole key. Replaces one of the same name.
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
