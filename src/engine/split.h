#pragma once

#include <cstdint>
#include <vector>

#include "core/node_share.h"
#include "weir/fleet.h"

// Split limits: every node of a fleet enforces its part without a question to the others.

namespace weir::engine {

// The position of this node in its fleet after the last membership step that it applied.
struct FleetPosition {
  std::uint64_t version = 0;  // of the membership; 0: never a member
  std::vector<Membership::NodeRank> places{};
  bool founding = false;

  bool has_joined() const { return version > 0; }
};

// True if the position gives the node a part of every limit that is large enough.
bool gives_parts(const FleetPosition& fleet_position);

// The part of a count that a node may use: the smallest that any of its places gives. All of it if
// the node was never a member; then on_store_failure decides whether it may use that.
Permits granted(const FleetPosition& fleet_position, Permits count);

// A node's share of a limit. It shrinks at once. It grows only when everything that other nodes may
// have used of the difference no longer counts.
struct SplitShare {
  Permits whole = 0;    // capacity of the limit
  Permits part = 0;     // what the node uses now
  Permits granted = 0;  // what the node uses after `grows_at`
  Instant grows_at = Instant::max();
  bool starts_empty = false;  // new on this node: a bucket starts empty

  bool waits() const { return part < granted; }
};

// The share of a limit that no node had before.
SplitShare first_share(const core::Limit& limit, const FleetPosition& fleet_position);

// The share after `was` at `now`. The limit may have changed.
SplitShare next_share(SplitShare was, const core::Limit& limit, const FleetPosition& fleet_position,
                      Instant now);

}  // namespace weir::engine
