#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/import.h"
#include "envoy/read_rules.h"
#include "policy/limit_text.h"

namespace weir::cli {

namespace {

using envoy::DescriptorNode;
using envoy::DescriptorRule;

constexpr std::string_view kHead =
    "# Policies with the limits of {0}.\n"
    "#\n"
    "# For Envoy, weir can read that file unchanged: `envoy_ratelimit: {0}`. These policies are "
    "for\n"
    "# programs that call weir directly. Differences:\n"
    "# - The caller names the policy and gives a part for each key: weir does not search a tree.\n"
    "#   A policy with a fixed value in its name is for calls with that value.\n"
    "# - A refused call is not counted.\n"
    "# - `window` is the fixed window of envoyproxy/ratelimit: the whole limit is available again\n"
    "#   when a window begins. Without that word, the limit is a token bucket, which refills\n"
    "#   continuously.\n";

// The path from the root to a node, without the root.
std::vector<const DescriptorNode*> path_to(const DescriptorNode& node) {
  std::vector<const DescriptorNode*> path_nodes;
  for (const DescriptorNode* each = &node; !each->key.empty(); each = each->parent)
    path_nodes.push_back(each);
  std::ranges::reverse(path_nodes);
  return path_nodes;
}

class EnvoyPolicyWriter {
 public:
  std::string text;

  void write(const DescriptorNode& node) {
    if (node.rule) {
      write(node, *node.rule);
    } else if (node.children.empty() && !node.key.empty()) {
      fmt::format_to(std::back_inserter(text), "\n  # {} has no limit: call no policy\n",
                     in_comment(path_of(node)));
    }
    for (const auto& child : node.children) write(*child);
  }

 private:
  static std::string path_of(const DescriptorNode& node) {
    std::string path;
    for (const DescriptorNode* each : path_to(node)) {
      if (!path.empty()) path += " > ";
      path += each->value.empty() ? each->key : each->key + "=" + each->value;
    }
    return path;
  }

  void write(const DescriptorNode& node, const DescriptorRule& rule) {
    auto out = std::back_inserter(text);
    fmt::format_to(out, "\n  # {}\n", in_comment(path_of(node)));
    if (rule.unlimited) {
      fmt::format_to(out, "  # is unlimited: call no policy\n");
      return;
    }
    if (rule.requests_per_unit == 0) {
      fmt::format_to(
          out, "  # allows nothing, which no limit of weir can express: refuse without a call\n");
      return;
    }
    std::vector<std::string> by;
    std::set<std::string> seen;
    for (const DescriptorNode* each : path_to(node)) {
      if (each->is_wildcard) {
        fmt::format_to(out, "  # For values of {} that match {}{}.\n", in_comment(each->key),
                       in_comment(each->value),
                       each->shares_counter ? ", which share one counter" : "");
      }
      if (!seen.insert(each->key).second) {
        fmt::format_to(
            out, "  # {} occurs twice, but a part can occur only once: combine both values.\n",
            in_comment(each->key));
      } else if (!each->shares_counter) {
        by.push_back(in_yaml(each->key));
      }
    }
    if (by.empty()) fmt::format_to(out, "  # All calls count together: always use the same key.\n");
    if (rule.quota) {
      fmt::format_to(out, "  # quota_mode: Envoy refuses only if all such limits of a call do.\n");
    }
    for (const std::string& name : rule.replaces) {
      fmt::format_to(out, "  # Replaces the limit named {}: do not call both.\n", in_comment(name));
    }
    // In statistics of envoyproxy/ratelimit, (a_b, c) and (a, b_c) have the same name.
    fmt::format_to(out, "  {}:\n", in_yaml(new_name(rule.path, taken_)));
    if (rule.shadow) fmt::format_to(out, "    shadow: true\n");
    fmt::format_to(out, "    limits:\n      - {{ limit: {}", policy::to_text(rule.limit));
    if (!rule.name.empty()) fmt::format_to(out, ", name: {}", in_yaml(rule.name));
    if (!by.empty()) fmt::format_to(out, ", by: [{}]", fmt::join(by, ", "));
    fmt::format_to(out, " }}\n");
  }

  std::set<std::string> taken_;  // names of policies
};

}  // namespace

ImportResult import_envoy(const policy::Source& source) {
  const envoy::ReadRulesResult loaded = envoy::read_rules({source});
  ImportResult imported;
  if (loaded.rules == nullptr) {
    imported.problems = {{source, loaded.files.front().problems}};
    return imported;
  }
  EnvoyPolicyWriter writer;
  for (const auto& [name, domain] : loaded.rules->domains) writer.write(domain.root);
  const bool has_limits = writer.text.find("limits:") != std::string::npos;
  imported.text = fmt::format(fmt::runtime(kHead), in_comment(source.name));
  imported.text += has_limits ? "policies:" + writer.text : writer.text + "policies: {}\n";
  return imported;
}

}  // namespace weir::cli
