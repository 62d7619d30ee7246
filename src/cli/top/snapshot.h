#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/result.h"

namespace weir::cli::top {

// A key of somebody, any bytes.
struct Key {
  std::string text{};
  std::uint64_t count = 0;
  std::uint64_t error = 0;
};

struct Policy {
  std::string name{};  // empty: limits that came with the call
  std::uint64_t allowed = 0;
  std::uint64_t refused = 0;
  std::vector<Key> top_allowed{};
  std::vector<Key> top_refused{};
  std::vector<std::string> limits{};  // as texts; none of a policy that is not in force
  std::vector<std::string> orders{};  // likewise
};

// What a daemon said at one moment: the answer of GET /v1/top.
struct Snapshot {
  std::int64_t seconds = 0;
  std::int64_t uptime = 0;
  std::uint64_t generation = 0;
  std::vector<Policy> policies{};
};

Result<Snapshot, Error> read_snapshot(std::string_view body);

// A policy between two snapshots.
struct Row {
  Policy policy{};
  double allowed = 0;  // a second
  double refused = 0;
};

// The busiest first, and of those that are quiet the busiest so far. After a restart of the daemon
// all that it counted is new.
std::vector<Row> rows_between(const Snapshot& before, const Snapshot& now, double seconds);

}  // namespace weir::cli::top
