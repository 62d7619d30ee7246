#pragma once

#include "core/limit.h"

namespace weir::core {

// One of `nodes` equal parts of a limit: what each may admit when none can ask the others. A part
// of a count is rounded down, but is one at least: a limit smaller than the fleet is exceeded then.
Limit share_of(const Limit& limit, Permits nodes);

// ---- Of limits that are always split among nodes

// Whether a limit can be: those that know what they count.
bool can_be_split(const Limit& limit);

// What falls to one of the nodes, counted from 0: the first ones get what is left over.
constexpr Permits portion(Permits count, Permits nodes, Permits rank) {
  return count / nodes + (rank < count % nodes ? 1 : 0);
}

// The limit of a node that may use `part` of its capacity, from 1 to all of it. Of a limit that can
// be split.
Limit part_of(const Limit& limit, Permits part);

// When nothing that anybody has used of a limit up to `since` can count any more.
Instant forgotten_at(const Limit& limit, Instant since);

// The same limit, of which nothing is left for anybody at `now`: a bucket. (Others cannot say so.)
Limit starting_empty(const Limit& limit, Instant now);

}  // namespace weir::core
