#include "engine/split.h"

#include <algorithm>

#include "base/int128.h"

namespace weir::engine {

namespace {

// The share after a change of the limit. A node that used its full share uses the full new share;
// else its part is scaled.
SplitShare resized(SplitShare share, Permits whole, Permits now_granted) {
  const bool used_all = !share.waits() && share.part > 0;
  const auto in_proportion = static_cast<Permits>(Int128{share.part} * whole / share.whole);
  share.part = used_all ? now_granted : std::min(in_proportion, now_granted);
  share.granted = std::max(share.part, share.granted > 0 ? now_granted : 0);
  share.whole = whole;
  return share;
}

// Grows the share. A node without a part may start with an empty bucket at once: that takes nothing
// from the others.
void grow(SplitShare& share, const core::Limit& limit, Permits granted, bool founding,
          Instant now) {
  share.granted = granted;
  const bool begins = share.part == 0;
  const bool fills = std::holds_alternative<core::Bucket>(limit);
  if (begins && (founding || fills)) {
    share.part = granted;
    share.starts_empty = !founding;
  } else {
    share.grows_at = core::usage_expires_at(limit, now);
  }
}

}  // namespace

bool gives_parts(const FleetPosition& fleet_position) {
  return fleet_position.has_joined() && !fleet_position.places.empty() &&
         std::ranges::all_of(fleet_position.places, [](const Membership::NodeRank& place) {
           return place.rank.has_value();
         });
}

Permits granted(const FleetPosition& fleet_position, Permits count) {
  if (!fleet_position.has_joined()) return count;
  if (fleet_position.places.empty()) return 0;
  Permits smallest = count;
  for (const Membership::NodeRank& place : fleet_position.places) {
    const Permits own = place.rank ? core::portion(count, place.nodes, *place.rank) : 0;
    smallest = std::min(smallest, own);
  }
  return smallest;
}

SplitShare first_share(const core::Limit& limit, const FleetPosition& fleet_position) {
  const Permits whole = core::capacity(limit);
  const Permits all = granted(fleet_position, whole);
  return {.whole = whole, .part = all, .granted = all};
}

SplitShare next_share(SplitShare was, const core::Limit& limit, const FleetPosition& fleet_position,
                      Instant now) {
  SplitShare share = was;
  share.starts_empty = false;
  if (share.grows_at <= now) {
    share.part = share.granted;
    share.grows_at = Instant::max();
  }
  const Permits whole = core::capacity(limit);
  const Permits new_part = granted(fleet_position, whole);
  if (whole != share.whole) share = resized(share, whole, new_part);
  if (new_part > share.granted) {
    grow(share, limit, new_part, fleet_position.founding, now);
  } else {
    share.granted = new_part;
    share.part = std::min(share.part, new_part);
  }
  if (!share.waits()) share.grows_at = Instant::max();
  return share;
}

}  // namespace weir::engine
