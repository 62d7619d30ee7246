#include "engine/split.h"

#include <algorithm>

#include "base/int128.h"

namespace weir::engine {

namespace {

// As much of another limit, where all of it was used that may be; else as much in proportion.
Share resized(Share share, Permits whole, Permits now_granted) {
  const bool used_all = !share.waits() && share.part > 0;
  const auto in_proportion = static_cast<Permits>(Int128{share.part} * whole / share.whole);
  share.part = used_all ? now_granted : std::min(in_proportion, now_granted);
  share.granted = std::max(share.part, share.granted > 0 ? now_granted : 0);
  share.whole = whole;
  return share;
}

// More than before. A node that had nothing may begin with an empty bucket at once: what the others
// use is no less for it.
void grow(Share& share, const core::Limit& limit, Permits granted, bool founding, Instant now) {
  share.granted = granted;
  const bool begins = share.part == 0;
  const bool fills = std::holds_alternative<core::Bucket>(limit);
  if (begins && (founding || fills)) {
    share.part = granted;
    share.starts_empty = !founding;
  } else {
    share.grows_at = core::forgotten_at(limit, now);
  }
}

}  // namespace

bool gives_parts(const Standing& standing) {
  return standing.is_known() && !standing.places.empty() &&
         std::ranges::all_of(standing.places,
                             [](const Membership::Place& place) { return place.rank.has_value(); });
}

Permits granted(const Standing& standing, Permits count) {
  if (!standing.is_known()) return count;
  if (standing.places.empty()) return 0;
  Permits least = count;
  for (const Membership::Place& place : standing.places) {
    const Permits own = place.rank ? core::portion(count, place.nodes, *place.rank) : 0;
    least = std::min(least, own);
  }
  return least;
}

Share first_share(const core::Limit& limit, const Standing& standing) {
  const Permits whole = core::capacity(limit);
  const Permits all = granted(standing, whole);
  return {.whole = whole, .part = all, .granted = all};
}

Share next_share(Share was, const core::Limit& limit, const Standing& standing, Instant now) {
  Share share = was;
  share.starts_empty = false;
  if (share.grows_at <= now) {
    share.part = share.granted;
    share.grows_at = Instant::max();
  }
  const Permits whole = core::capacity(limit);
  const Permits more_or_less = granted(standing, whole);
  if (whole != share.whole) share = resized(share, whole, more_or_less);
  if (more_or_less > share.granted) {
    grow(share, limit, more_or_less, standing.founding, now);
  } else {
    share.granted = more_or_less;
    share.part = std::min(share.part, more_or_less);
  }
  if (!share.waits()) share.grows_at = Instant::max();
  return share;
}

}  // namespace weir::engine
