#include "policy/policy_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "policy/limit_yaml.h"
#include "policy/yaml.h"

namespace weir::policy {

namespace {

constexpr std::array<std::string_view, 14> kTopLevel{
    "version",     "listen", "store",   "store_timeout", "memory",          "state",  "password",
    "admin_token", "tls",    "headers", "policies",      "envoy_ratelimit", "compat", "gateway"};

constexpr std::array<std::string_view, 6> kPolicy{"limits", "on_store_failure", "when_full",
                                                  "shadow", "overrides",        "schedule"};

// Two fields change which limits apply; ignoring them would give wrong answers.
constexpr std::array<std::string_view, 2> kNotYet{"overrides", "schedule"};

void check_names(const Node& node, const std::vector<Limit>& limits, Problems& problems) {
  for (std::size_t i = 0; i < limits.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (limits[i].name.empty() || limits[i].name != limits[j].name) continue;
      problems.push_back(
          {node.place, fmt::format("two limits have the name \"{}\"", limits[i].name)});
    }
  }
}

WhenFull read_when_full(const Node& node, Problems& problems) {
  constexpr std::array<std::string_view, 3> words{"share", "deny", "allow"};
  const auto word = std::ranges::find(words, node.text);
  if (word != words.end()) return static_cast<WhenFull>(word - words.begin());
  problems.push_back(
      {node.place, fmt::format("\"when_full\" is share, deny or allow, not {}", node.describe())});
  return WhenFull::share;
}

Policy read_policy(const Node& node, Problems& problems) {
  Policy policy;
  if (!node.is_map()) {
    problems.push_back(
        {node.place, fmt::format("a policy is a map with limits, not {}", node.describe())});
    return policy;
  }
  check_fields(node, kPolicy, "a policy", problems);
  for (const std::string_view name : kNotYet) {
    if (const Node* field = node.find(name)) {
      problems.push_back(
          {field->place, fmt::format("\"{}\" is not supported by this version", name)});
    }
  }
  const Node* limits = node.find("limits");
  if (limits == nullptr) {
    problems.push_back({node.place, "a policy needs limits: write limits: [ 100/s ]"});
    return policy;
  }
  policy.limits = read_limits(*limits, problems);
  check_names(*limits, policy.limits, problems);
  if (const Node* field = node.find("when_full")) {
    policy.when_full = read_when_full(*field, problems);
  }
  if (const Node* shadow = node.find("shadow"); shadow && read_bool(*shadow, "shadow", problems)) {
    for (Limit& limit : policy.limits) limit.shadow = true;
  }
  return policy;
}

}  // namespace

PolicySet read_policies(const Source& source, Problems& problems) {
  PolicySet set;
  const auto root = parse_yaml(source);
  if (!root) {
    problems.push_back(root.error());
    return set;
  }
  const Node& file = **root;
  if (!file.is_map()) {
    problems.push_back(
        {file.place, fmt::format("a policy file is a map with policies, not {}", file.describe())});
    return set;
  }
  check_fields(file, kTopLevel, "a policy file", problems);
  const Node* policies = file.find("policies");
  if (policies == nullptr || policies->is_null()) return set;
  if (!policies->is_map()) {
    problems.push_back({policies->place, "\"policies\" is a map from names to policies"});
    return set;
  }
  for (const Node::Field& field : policies->fields) {
    set[field.name] = read_policy(*field.value, problems);
  }
  return set;
}

}  // namespace weir::policy
