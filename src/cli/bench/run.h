#pragma once

#include <functional>

#include "cli/bench/load.h"
#include "cli/bench/plan.h"
#include "cli/bench/tally.h"

namespace weir::cli::bench {

// What a run has come to, at its end or on the way.
struct Ran {
  Tally tally{};
  Nanos elapsed{0};  // since the start, warm-up included, up to the last answer or the end
  bool interrupted = false;
};

// Carries out a plan. SIGINT and SIGTERM end it early: the first lets answers come in that are
// missing, the second does not. `progress` is called a few times a second, if there is one.
Result<Ran, Error> run(const Plan& plan, Asked* asked,
                       const std::function<void(const Ran&)>& progress);

}  // namespace weir::cli::bench
