#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/price_history.h"
#include "policy/identity.h"
#include "policy/key.h"
#include "timeline/timeline.h"

namespace weir::timeline {

// The limits of a case that hold for some of its keys, and by what the usage of each is known.
struct Together {
  std::vector<policy::Limit> limits;
  std::vector<std::string> identities;
};

// Which limits hold for whom at a step of a case: they depend on the key and the time, and a step
// may change them.
class CaseLimits {
 public:
  explicit CaseLimits(const Case& test);

  // Moves on to `now`, which may bring other limits.
  void advance(Instant now);
  const Together& of(const Subject& subject) const;
  // Whether the limit is now by another algorithm, so that nothing that was used stays used.
  bool set_limit(const Step& step, Instant now);
  // The prices that a limit of those `of` some subject has had.
  const core::PriceHistory* history_of(const Together& limits, std::size_t position) const;
  const std::string& identity_at(std::size_t position) const { return usual_.identities[position]; }

 private:
  void change_hours(Instant at);
  void succeed(policy::Limit& next, const core::Limit& old, const std::string& identity,
               Instant at);

  const Case& case_;
  Together usual_;
  std::map<std::string, core::PriceTimeline> prices_;  // of the usual limits, by identity
  policy::Schedules schedules_;
  core::Span span_{Instant::min(), Instant::max()};  // for which the usual limits hold
  policy::PatternIndex overrides_;
  std::vector<Together> own_;  // of keys that have an override, by its position
};

// What a step asks of a limit.
core::Ask ask_of(const Step& step, const policy::Limit& limit);

}  // namespace weir::timeline
