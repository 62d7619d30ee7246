#pragma once

#include <cstdint>
#include <vector>

#include "core/share.h"
#include "weir/fleet.h"

// Limits that are split: every node of a fleet has its part, and asks nobody.

namespace weir::engine {

// Where the node stands, since the last step it has made.
struct Standing {
  std::uint64_t version = 0;  // of the membership; 0: it was never a member
  std::vector<Membership::Place> places{};
  bool founding = false;

  bool is_known() const { return version > 0; }
};

// Whether it gives the node a part of every limit that is large enough.
bool gives_parts(const Standing& standing);

// What a node may use of a count: the least that its places give it. All of it, if it was never a
// member: then the policy says whether it may use that.
Permits granted(const Standing& standing, Permits count);

// What a node uses of a limit. It uses less at once when it is granted less. When it is granted
// more, others may just have used that: it waits until nothing of it can count any more.
struct Share {
  Permits whole = 0;    // capacity of the limit
  Permits part = 0;     // of it: what the node uses
  Permits granted = 0;  // what it will use
  Instant grows_at = Instant::max();
  bool starts_empty = false;  // it has just begun, with nothing to give

  bool waits() const { return part < granted; }
};

// The first of a limit that nobody has had before.
Share first_share(const core::Limit& limit, const Standing& standing);

// What follows `was` at `now`, of a limit that may have become another one.
Share next_share(Share was, const core::Limit& limit, const Standing& standing, Instant now);

}  // namespace weir::engine
