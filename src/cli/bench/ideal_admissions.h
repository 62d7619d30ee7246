#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/int128.h"
#include "cli/bench/bench_plan.h"
#include "cli/bench/load_generator.h"
#include "core/limit.h"

namespace weir::cli::bench {

// A limit that decides about the requests of a run, and the cost of a request for it.
struct KnownLimit {
  core::Limit rule;
  Permits cost = 1;
  bool shadow = false;
};

// A line of WEIR.EXPLAIN: "rate: 100/s burst 20: 20 of 20 left; a cost of 1 passes".
Result<KnownLimit, Error> read_explained(std::string_view line);

// The number of requests that ideal token buckets would have admitted in a run.
//
// A token bucket that is full at the start admits within a time t at most its burst plus the
// permits that refill during t. The ideal of a key is the smaller of that and the number of takes
// sent for the key. A correct limiter never exceeds this bound. It stays below it if requests for a
// key arrive in bursts larger than the capacity, with pauses in which the bucket is already full.
class IdealAdmissions {
 public:
  // For all of these limits together. Error: the ideal is not defined for them, or for this mix.
  static Result<IdealAdmissions, Error> of(const BenchPlan& plan, std::vector<KnownLimit> limits);

  // The maximum number of requests for one key that pass within the time.
  std::uint64_t for_key(Nanos elapsed) const;
  // The sum over all keys.
  std::uint64_t for_all(const TakesPerKey& takes_per_key, Nanos elapsed) const;

 private:
  struct Refill {
    Permits capacity = 0;
    Permits cost = 1;
    Int128 price = 1;  // time to refill one permit, in 1/parts ns
    std::int64_t parts = 1;
  };

  std::vector<Refill> refills_;
};

}  // namespace weir::cli::bench
