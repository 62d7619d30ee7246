#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/price_history.h"
#include "policy/identity.h"
#include "policy/key.h"
#include "timeline/timeline.h"

namespace weir::timeline {

// Limits of a case that apply to the same keys, with the identity of each.
struct LimitGroup {
  std::vector<policy::Limit> limits;
  std::vector<std::string> identities;
};

// The limits that apply to a subject at a step of a case: they depend on the key and the time, and
// a step may change them.
class CaseLimits {
 public:
  explicit CaseLimits(const Case& test);

  // Advances to `now`: a schedule may change the limits.
  void advance(Instant now);
  const LimitGroup& of(const StepSubject& subject) const;
  // Returns true if the algorithm of the limit changed, so that its usage is lost.
  bool set_limit(const Step& step, Instant now);
  // The price history of one of the `limits` (as `of` returned them).
  const core::PriceHistory* history_of(const LimitGroup& limits, std::size_t position) const;
  const std::string& identity_at(std::size_t position) const {
    return defaults_.identities[position];
  }

 private:
  void change_hours(Instant at);
  void succeed(policy::Limit& next, const core::Limit& old, const std::string& identity,
               Instant at);

  const Case& case_;
  LimitGroup defaults_;
  std::map<std::string, core::PriceTimeline> prices_;  // of the default limits, by identity
  policy::Schedules schedules_;
  core::Span span_{Instant::min(), Instant::max()};  // in which the default limits apply
  policy::PatternIndex overrides_;
  std::vector<LimitGroup> overridden_;  // of keys with an override, by its position
};

// The request of a step to one limit.
core::Ask ask_of(const Step& step, const policy::Limit& limit);

}  // namespace weir::timeline
