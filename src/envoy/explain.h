#pragma once

#include <optional>
#include <string>
#include <vector>

#include "envoy/messages.h"
#include "envoy/walk.h"
#include "weir/decision.h"

namespace weir::envoy {

// One entry of a descriptor, and the node that matched it.
struct ExplainedStep {
  std::string key;
  std::string value;
  MatchKind match = MatchKind::none;
  std::string pattern{};  // of a wildcard
  std::string place{};    // of the matching node: FILE:LINE:COLUMN
};

// The limit of a descriptor and its current state.
struct ExplainedLimit {
  std::string text;  // "20/min window"
  std::string name{};
  std::string counted_as{};  // name of its metrics
  std::string counter{};     // key of its counter
  bool shadow = false;
  bool quota = false;
  Permits hits = 0;
  Decision decision{};
};

struct ExplainedDescriptor {
  std::vector<ExplainedStep> steps{};
  bool has_domain = true;
  bool unlimited = false;
  bool comes_with_call = false;  // the descriptor has a limit of its own, and no rule was looked up
  WalkEnd end = WalkEnd::not_found;
  std::string why{};  // a sentence for people
  std::optional<ExplainedLimit> limit{};
};

struct RequestExplanation {
  std::string domain;
  std::vector<ExplainedDescriptor> descriptors;
};

// Explains the walk of a descriptor, without the state of its limit. A null domain: there is none.
ExplainedDescriptor explain_walk(std::string_view name, const Domain* domain,
                                 const RateLimitDescriptor& descriptor);

std::string_view to_text(MatchKind match);
std::string_view to_text(WalkEnd end);

}  // namespace weir::envoy
