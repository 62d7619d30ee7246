#pragma once

#include <optional>
#include <string>
#include <vector>

#include "envoy/call.h"
#include "envoy/walk.h"
#include "weir/decision.h"

namespace weir::envoy {

// One entry of a descriptor, and what was found for it.
struct ExplainedStep {
  std::string key;
  std::string value;
  Match match = Match::none;
  std::string pattern{};  // of a wildcard
  std::string place{};    // of what was found: FILE:LINE:COLUMN
};

// A limit that a descriptor leads to, as it is.
struct ExplainedLimit {
  std::string text;  // "20/min window"
  std::string name{};
  std::string counted_as{};  // in statistics
  std::string counter{};     // the name of what it counts in
  bool shadow = false;
  bool quota = false;
  Permits hits = 0;
  Decision decision{};
};

struct ExplainedDescriptor {
  std::vector<ExplainedStep> steps{};
  bool has_domain = true;
  bool unlimited = false;
  bool comes_with_call = false;  // the limit does, and no rule was looked for
  End end = End::not_found;
  std::string why{};  // a sentence
  std::optional<ExplainedLimit> limit{};
};

struct Explanation {
  std::string domain;
  std::vector<ExplainedDescriptor> descriptors;
};

// The walk of a descriptor, without the state of its limit. (No domain: there is none.)
ExplainedDescriptor explain_walk(std::string_view name, const Domain* domain,
                                 const Descriptor& descriptor);

std::string_view to_text(Match match);
std::string_view to_text(End end);

}  // namespace weir::envoy
