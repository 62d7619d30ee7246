#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/bench/bench_plan.h"
#include "cli/bench/random.h"
#include "cli/bench/tally.h"
#include "cli/bench/zipf.h"

namespace weir::cli::bench {

// The number of takes sent for each key, by all threads of the run.
using TakesPerKey = std::vector<std::atomic<std::uint32_t>>;

// A request to send. Times are measured from the start of the run.
struct BenchRequest {
  Nanos start{0};  // latency counts from here: open loop: when it was due; closed: sent
  Nanos sent{0};
  std::uint64_t key = 0;
  RequestVerb verb = RequestVerb::take;
  bool measured = true;  // false during the warm-up
};

// Generates the requests of one thread, and counts their results. Uses no socket and no clock: the
// caller passes the time since the start of the run. Not thread-safe.
//
// Closed loop: a connection sends its next request when it has the reply to the last one. A daemon
// that stalls receives fewer requests, and the stall shows in as many samples as requests were in
// flight (coordinated omission).
//
// Open loop: request i is due i / rate after the start, whatever the daemon does. A request for
// which no connection is free waits, and the wait is part of its latency, because real callers do
// not stop arriving either.
class LoadGenerator {
 public:
  // `takes_per_key`: counts the takes of each key; may be null. The plan must outlive this object.
  LoadGenerator(const BenchPlan& plan, std::size_t thread, TakesPerKey* takes_per_key);

  // The next request, if one is due by now.
  std::optional<BenchRequest> next(Nanos now);
  // When the next request is due; kForever in a closed loop, or if there will be none.
  Nanos next_due() const;
  // True if no further request will start.
  bool over(Nanos now) const;
  // Ends the run at `now`, if it would end later.
  void stop(Nanos now);

  void answered(const BenchRequest& request, const BenchReply& answer, Nanos now);
  // No reply will arrive. `kind` and `text` as in BenchReply.
  void failed(const BenchRequest& request, std::string_view kind, std::string_view text);
  // No reply arrived within the timeout: counts as an error, and its wait so far as latency.
  void timed_out(const BenchRequest& request, Nanos now);
  // The run has ended before the reply: counts as unanswered, and its wait so far as latency.
  void abandoned(const BenchRequest& request, Nanos now);
  // At the end of an open loop: counts requests that were due and never sent, with their wait.
  void count_unsent(Nanos now);

  Tally& tally() { return tally_; }
  const Tally& tally() const { return tally_; }

 private:
  Nanos due(std::uint64_t index) const;
  bool ran_out() const { return measured_left_ && *measured_left_ == 0; }
  std::optional<Nanos> next_start(Nanos now);
  RequestVerb choose_verb();
  std::uint64_t choose_key();

  const BenchPlan& plan_;
  const std::size_t thread_;
  TakesPerKey* const takes_per_key_;
  Random random_;
  std::optional<Zipf> zipf_{};
  const std::uint64_t mix_sum_;
  Nanos end_ = kForever;
  std::optional<Nanos> first_call_after_end_{};
  std::optional<std::uint64_t> measured_left_{};  // with --requests
  std::uint64_t index_ = 0;                       // of the next request
  Tally tally_{};
};

}  // namespace weir::cli::bench
