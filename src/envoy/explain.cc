#include "envoy/explain.h"

#include <fmt/format.h>

namespace weir::envoy {

namespace {

std::string pair_of(const Entry& entry) { return fmt::format("{}={}", entry.key, entry.value); }

std::string why(const Walk& walk, const Descriptor& descriptor) {
  const auto& entries = descriptor.entries;
  switch (walk.end) {
    case End::limit:
      return walk.node->rule->unlimited ? "the rule says that it is unlimited"
                                        : "the last entry leads to a rule";
    case End::no_rule:
      if (!walk.node->children.empty()) {
        return fmt::format(
            "{} has no limit of its own: the descriptor ends before the configuration does",
            pair_of(entries[walk.steps - 1]));
      }
      return fmt::format("{} has neither limit nor descriptors below it: it is let through",
                         pair_of(entries[walk.steps - 1]));
    case End::too_long:
      return fmt::format(
          "there are no descriptors below {}, and {} more in the call: a limit counts only for "
          "descriptors that end where it stands",
          pair_of(entries[walk.steps - 1]), entries.size() - walk.steps);
    case End::not_found:
      break;
  }
  if (entries.empty()) return "the descriptor has no entries";
  const std::string at = walk.steps == 0 ? "the domain" : pair_of(entries[walk.steps - 1]);
  return fmt::format(
      "there is neither value, wildcard nor key for {} below {}; there is no way back to another "
      "rule",
      pair_of(entries[walk.steps]), at);
}

}  // namespace

std::string_view to_text(Match match) {
  switch (match) {
    case Match::value:
      return "value";
    case Match::wildcard:
      return "wildcard";
    case Match::key:
      return "key";
    case Match::none:
      break;
  }
  return "none";
}

std::string_view to_text(End end) {
  switch (end) {
    case End::limit:
      return "limit";
    case End::no_rule:
      return "no_rule";
    case End::too_long:
      return "too_long";
    case End::not_found:
      break;
  }
  return "not_found";
}

ExplainedDescriptor explain_walk(std::string_view name, const Domain* domain,
                                 const Descriptor& descriptor) {
  ExplainedDescriptor told;
  if (domain == nullptr) {
    told.has_domain = false;
    told.why = fmt::format("there is no domain \"{}\": nothing of it is limited", name);
    return told;
  }
  if (descriptor.limit) {
    told.comes_with_call = true;
    told.end = End::limit;
    told.why = "the limit comes with the call: no rule is looked for";
    return told;
  }
  const Walk walked = walk(*domain, descriptor.entries);
  const Node* from = &domain->root;
  for (std::size_t i = 0; i < descriptor.entries.size(); ++i) {
    const Entry& entry = descriptor.entries[i];
    ExplainedStep& told_step = told.steps.emplace_back(
        ExplainedStep{.key = std::string{entry.key}, .value = std::string{entry.value}});
    if (i >= walked.steps) break;
    const Found found = step(*from, entry);
    told_step.match = found.match;
    told_step.place = found.node->place;
    if (found.match == Match::wildcard) told_step.pattern = found.node->value;
    from = found.node;
  }
  told.end = walked.end;
  told.unlimited = walked.end == End::limit && walked.node->rule->unlimited;
  told.why = why(walked, descriptor);
  return told;
}

}  // namespace weir::envoy
