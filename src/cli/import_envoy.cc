#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/import.h"
#include "envoy/load.h"
#include "policy/limit_text.h"

namespace weir::cli {

namespace {

using envoy::Node;
using envoy::Rule;

constexpr std::string_view kHead =
    "# Policies that count as the rules of {0} do.\n"
    "#\n"
    "# weir reads that file as it is, too: `envoy_ratelimit: {0}`. These are for callers that ask\n"
    "# weir themselves. What differs:\n"
    "# - A caller names the policy, and gives a part for each key: nothing is looked for in a "
    "tree.\n"
    "#   A policy with a fixed value in its name is for calls with that value.\n"
    "# - A call that is refused is not counted.\n"
    "# - `window` is theirs: all of it again when a window begins. Without that word it is a "
    "token\n"
    "#   bucket, which has no such edge.\n";

// The nodes that lead to one, the first one first.
std::vector<const Node*> way_to(const Node& node) {
  std::vector<const Node*> way;
  for (const Node* each = &node; !each->key.empty(); each = each->parent) way.push_back(each);
  std::ranges::reverse(way);
  return way;
}

class Writer {
 public:
  std::string text;

  void write(const Node& node) {
    if (node.rule) {
      write(node, *node.rule);
    } else if (node.children.empty() && !node.key.empty()) {
      fmt::format_to(std::back_inserter(text), "\n  # {} has no limit: ask for no policy\n",
                     in_comment(path_of(node)));
    }
    for (const auto& child : node.children) write(*child);
  }

 private:
  static std::string path_of(const Node& node) {
    std::string path;
    for (const Node* each : way_to(node)) {
      if (!path.empty()) path += " > ";
      path += each->value.empty() ? each->key : each->key + "=" + each->value;
    }
    return path;
  }

  void write(const Node& node, const Rule& rule) {
    auto out = std::back_inserter(text);
    fmt::format_to(out, "\n  # {}\n", in_comment(path_of(node)));
    if (rule.unlimited) {
      fmt::format_to(out, "  # is unlimited: ask for no policy\n");
      return;
    }
    if (rule.requests_per_unit == 0) {
      fmt::format_to(out, "  # lets nothing through, which no limit of weir says: do not ask\n");
      return;
    }
    std::vector<std::string> by;
    std::set<std::string> seen;
    for (const Node* each : way_to(node)) {
      if (each->is_wildcard) {
        fmt::format_to(out, "  # For values of {} that match {}{}.\n", in_comment(each->key),
                       in_comment(each->value),
                       each->shares_counter ? ", which count together" : "");
      }
      if (!seen.insert(each->key).second) {
        fmt::format_to(out, "  # {} is there twice, and a part is not: give one value of both.\n",
                       in_comment(each->key));
      } else if (!each->shares_counter) {
        by.push_back(in_yaml(each->key));
      }
    }
    if (by.empty()) fmt::format_to(out, "  # Always ask with the same key.\n");
    if (rule.quota) {
      fmt::format_to(out,
                     "  # quota_mode: there, it refuses only if all such limits of a call do.\n");
    }
    for (const std::string& name : rule.replaces) {
      fmt::format_to(out, "  # Whoever asks for it does not ask for the limit named {}.\n",
                     in_comment(name));
    }
    // (There, (a_b, c) and (a, b_c) have one name.)
    fmt::format_to(out, "  {}:\n", in_yaml(new_name(rule.way, taken_)));
    if (rule.shadow) fmt::format_to(out, "    shadow: true\n");
    fmt::format_to(out, "    limits:\n      - {{ limit: {}", policy::to_text(rule.limit));
    if (!rule.name.empty()) fmt::format_to(out, ", name: {}", in_yaml(rule.name));
    if (!by.empty()) fmt::format_to(out, ", by: [{}]", fmt::join(by, ", "));
    fmt::format_to(out, " }}\n");
  }

  std::set<std::string> taken_;  // names of policies
};

}  // namespace

Imported import_envoy(const policy::Source& source) {
  const envoy::Loaded loaded = envoy::load({source});
  Imported imported;
  if (loaded.rules == nullptr) {
    imported.problems = {{source, loaded.files.front().problems}};
    return imported;
  }
  Writer writer;
  for (const auto& [name, domain] : loaded.rules->domains) writer.write(domain.root);
  const bool has_limits = writer.text.find("limits:") != std::string::npos;
  imported.text = fmt::format(fmt::runtime(kHead), in_comment(source.name));
  imported.text += has_limits ? "policies:" + writer.text : writer.text + "policies: {}\n";
  return imported;
}

}  // namespace weir::cli
