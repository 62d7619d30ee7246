#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/result.h"

namespace weir::cli::top {

// A frequent key, and how often it was counted. The text may hold any bytes.
struct HotKey {
  std::string text{};
  std::uint64_t count = 0;
  std::uint64_t error = 0;  // the count may be off by this much, in either direction
};

// The counts of a policy since the daemon started, and its most frequent keys.
struct PolicyActivity {
  std::string name{};  // empty: limits that came with the call
  std::uint64_t allowed = 0;
  std::uint64_t refused = 0;
  std::vector<HotKey> top_allowed{};
  std::vector<HotKey> top_refused{};
  std::vector<std::string> limits{};  // as text; empty for a policy that is not in force
  std::vector<std::string> orders{};  // in force, as text
};

// The response of GET /v1/top at one moment.
struct Snapshot {
  std::int64_t seconds = 0;  // the period of the key counts
  std::int64_t uptime = 0;   // seconds
  std::uint64_t generation = 0;
  std::vector<PolicyActivity> policies{};
};

Result<Snapshot, Error> read_snapshot(std::string_view body);

// The rates of a policy between two snapshots.
struct PolicyRates {
  PolicyActivity policy{};
  double allowed = 0;  // per second
  double refused = 0;  // per second
};

// The rates of all policies, highest rate first; at equal rates, highest total count first. If the
// daemon has restarted in between, the counts of `before` are taken as 0.
std::vector<PolicyRates> rows_between(const Snapshot& before, const Snapshot& now, double seconds);

}  // namespace weir::cli::top
