#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/bench/plan.h"
#include "cli/bench/random.h"
#include "cli/bench/tally.h"
#include "cli/bench/zipf.h"

namespace weir::cli::bench {

// How often each key was asked for a take, by all threads.
using Asked = std::vector<std::atomic<std::uint32_t>>;

// A request to be sent. Times are since the start of the run.
struct Request {
  Nanos start{0};  // what waiting counts from: when it was due, or, in a closed loop, sent
  Nanos sent{0};
  std::uint64_t key = 0;
  Verb verb = Verb::take;
  bool measured = true;  // not part of the warm-up
};

// The requests of one thread: which come next and when, and what became of them. Knows no socket
// and no clock.
//
// In a closed loop there is always a next one: a connection that has its answer asks again, so a
// daemon that stalls is asked less, and its stall costs as many requests as there are connections.
//
// In an open loop request i is due i / rate after the start, whatever the daemon does. If no
// connection has room for it, it waits, and that waiting is part of its latency: callers out there
// do not stop coming either.
class Load {
 public:
  // `asked`: where to count takes by key, or nowhere. The plan must outlive it.
  Load(const Plan& plan, std::size_t thread, Asked* asked);

  // The next request, if there is one to be sent by now.
  std::optional<Request> next(Nanos now);
  // When there will be one; kForever if never, or as soon as somebody has room.
  Nanos next_due() const;
  // Whether there will be no more.
  bool over(Nanos now) const;
  // Nothing more from now on.
  void stop(Nanos now);

  void answered(const Request& request, const Answer& answer, Nanos now);
  // No answer will come. `kind` and `text` as in Answer.
  void failed(const Request& request, std::string_view kind, std::string_view text);
  // It took longer than anybody waits. Whoever asked has waited at least so long.
  void timed_out(const Request& request, Nanos now);
  // The run has ended without its answer.
  void abandoned(const Request& request, Nanos now);
  // At the end: whatever was due and could not be sent has waited until now.
  void count_unsent(Nanos now);

  Tally& tally() { return tally_; }
  const Tally& tally() const { return tally_; }

 private:
  Nanos due(std::uint64_t index) const;
  bool ran_out() const { return measured_left_ && *measured_left_ == 0; }
  std::optional<Nanos> next_start(Nanos now);
  Verb choose_verb();
  std::uint64_t choose_key();

  const Plan& plan_;
  const std::size_t thread_;
  Asked* const asked_;
  Random random_;
  std::optional<Zipf> zipf_{};
  const std::uint64_t mix_sum_;
  Nanos end_ = kForever;
  std::optional<Nanos> looked_at_end_{};
  std::optional<std::uint64_t> measured_left_{};  // if they are counted
  std::uint64_t index_ = 0;                       // of the next, in an open loop
  Tally tally_{};
};

}  // namespace weir::cli::bench
