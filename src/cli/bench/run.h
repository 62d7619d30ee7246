#pragma once

#include <functional>

#include "cli/bench/bench_plan.h"
#include "cli/bench/load_generator.h"
#include "cli/bench/tally.h"

namespace weir::cli::bench {

// The counts of a run, at its end or while it goes on.
struct RunResult {
  Tally tally{};
  Nanos elapsed{0};  // from the start, warm-up included, to the last reply or the end
  bool interrupted = false;
};

// Carries out a plan; blocks until it has ended. SIGINT and SIGTERM end it early: after the first
// one the threads still wait for missing replies, after the second they do not. `progress`, if
// set, is called about four times a second on the calling thread. `takes_per_key` may be null.
Result<RunResult, Error> run(const BenchPlan& plan, TakesPerKey* takes_per_key,
                             const std::function<void(const RunResult&)>& progress);

}  // namespace weir::cli::bench
