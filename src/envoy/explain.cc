#include "envoy/explain.h"

#include <fmt/format.h>

namespace weir::envoy {

namespace {

std::string pair_of(const DescriptorEntry& entry) {
  return fmt::format("{}={}", entry.key, entry.value);
}

std::string why(const WalkResult& walk, const RateLimitDescriptor& descriptor) {
  const auto& entries = descriptor.entries;
  switch (walk.end) {
    case WalkEnd::limit:
      return walk.node->rule->unlimited ? "the rule says that it is unlimited"
                                        : "the last entry leads to a rule";
    case WalkEnd::no_rule:
      if (!walk.node->children.empty()) {
        return fmt::format(
            "{} has no limit of its own: the descriptor ends before the configuration does",
            pair_of(entries[walk.steps - 1]));
      }
      return fmt::format("{} has neither a limit nor descriptors below it: the call is not limited",
                         pair_of(entries[walk.steps - 1]));
    case WalkEnd::too_long:
      return fmt::format(
          "there are no descriptors below {}, but the call continues (entries left: {}): a limit "
          "applies only to descriptors that end at it",
          pair_of(entries[walk.steps - 1]), entries.size() - walk.steps);
    case WalkEnd::not_found:
      break;
  }
  if (entries.empty()) return "the descriptor has no entries";
  const std::string at = walk.steps == 0 ? "the domain" : pair_of(entries[walk.steps - 1]);
  return fmt::format(
      "no value, wildcard or key matches {} below {}; the search does not go back to another "
      "branch",
      pair_of(entries[walk.steps]), at);
}

}  // namespace

std::string_view to_text(MatchKind match) {
  switch (match) {
    case MatchKind::value:
      return "value";
    case MatchKind::wildcard:
      return "wildcard";
    case MatchKind::key:
      return "key";
    case MatchKind::none:
      break;
  }
  return "none";
}

std::string_view to_text(WalkEnd end) {
  switch (end) {
    case WalkEnd::limit:
      return "limit";
    case WalkEnd::no_rule:
      return "no_rule";
    case WalkEnd::too_long:
      return "too_long";
    case WalkEnd::not_found:
      break;
  }
  return "not_found";
}

ExplainedDescriptor explain_walk(std::string_view name, const Domain* domain,
                                 const RateLimitDescriptor& descriptor) {
  ExplainedDescriptor explained;
  if (domain == nullptr) {
    explained.has_domain = false;
    explained.why = fmt::format("there is no domain \"{}\": its calls are not limited", name);
    return explained;
  }
  if (descriptor.limit) {
    explained.comes_with_call = true;
    explained.end = WalkEnd::limit;
    explained.why = "the call brings its own limit: no rule is looked up";
    return explained;
  }
  const WalkResult result = walk(*domain, descriptor.entries);
  const DescriptorNode* from = &domain->root;
  for (std::size_t i = 0; i < descriptor.entries.size(); ++i) {
    const DescriptorEntry& entry = descriptor.entries[i];
    ExplainedStep& explained_step = explained.steps.emplace_back(
        ExplainedStep{.key = std::string{entry.key}, .value = std::string{entry.value}});
    if (i >= result.steps) break;
    const StepMatch found = step(*from, entry);
    explained_step.match = found.match;
    explained_step.place = found.node->place;
    if (found.match == MatchKind::wildcard) explained_step.pattern = found.node->value;
    from = found.node;
  }
  explained.end = result.end;
  explained.unlimited = result.end == WalkEnd::limit && result.node->rule->unlimited;
  explained.why = why(result, descriptor);
  return explained;
}

}  // namespace weir::envoy
