#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/int128.h"
#include "cli/bench/load.h"
#include "cli/bench/plan.h"
#include "core/limit.h"

namespace weir::cli::bench {

// A limit that takes part in the decisions of a run, and what a request costs it.
struct KnownLimit {
  core::Limit rule;
  Permits cost = 1;
  bool shadow = false;
};

// A line of WEIR.EXPLAIN: "rate: 100/s burst 20: 20 of 20 left; a cost of 1 passes".
Result<KnownLimit, Error> read_explained(std::string_view line);

// What limits would have admitted of a run, had nothing but them stood in the way.
//
// A token bucket that was full at the start has admitted, after a time t, at most its burst and
// what drips in during t. So for each key the ideal is that, or as many requests as there were for
// it if those are fewer. It is a bound that no right limiter exceeds; one is below it as far as
// requests for a key came in lumps larger than the burst, with pauses in which the bucket was full.
class Ideal {
 public:
  // Of these limits together, or why it cannot be said.
  static Result<Ideal, Error> of(const Plan& plan, std::vector<KnownLimit> limits);

  // The most requests for one key that pass within the time.
  std::uint64_t for_key(Nanos elapsed) const;
  // Of all keys.
  std::uint64_t for_all(const Asked& asked, Nanos elapsed) const;

 private:
  struct Refill {
    Permits capacity = 0;
    Permits cost = 1;
    Int128 price = 1;  // of a permit, in parts of a nanosecond
    std::int64_t parts = 1;
  };

  std::vector<Refill> refills_;
};

}  // namespace weir::cli::bench
