#pragma once

#include "core/limit.h"

namespace weir::core {

// A limit divided by `nodes`: what each node may admit while the shared store is unavailable.
// Counts are rounded down, but to at least one: a limit smaller than the number of nodes is then
// exceeded.
Limit divide_among(const Limit& limit, Permits nodes);

// ---- Limits with scope `split`

// True for the algorithms that can be divided by capacity.
bool can_be_split(const Limit& limit);

// The part of the node with `rank`, counted from 0. The first nodes get the remainder.
constexpr Permits portion(Permits count, Permits nodes, Permits rank) {
  return count / nodes + (rank < count % nodes ? 1 : 0);
}

// A limit with the capacity `part`, from 1 to the whole capacity. `limit` can be split.
Limit part_of(const Limit& limit, Permits part);

// The instant from which usage up to `since` no longer counts.
Instant usage_expires_at(const Limit& limit, Instant since);

// The same limit, with no permits left for any key at `now`. Only buckets can express that; other
// limits are returned unchanged.
Limit starting_empty(const Limit& limit, Instant now);

}  // namespace weir::core
