#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "cli/bench/bench_plan.h"
#include "cli/bench/bench_reply.h"
#include "cli/bench/latency_histogram.h"

namespace weir::cli::bench {

// Errors counted by kind, each with the text of its first error. Kinds come from the daemon,
// so their number is bounded: further kinds count as "other".
class ErrorCounts {
 public:
  struct ErrorGroup {
    std::uint64_t count = 0;
    std::string example{};
  };
  static constexpr std::size_t kMaxKinds = 16;
  static constexpr std::size_t kMaxExampleBytes = 200;

  void add(std::string_view kind, std::string_view example, std::uint64_t count = 1);
  void merge(const ErrorCounts& other);

  bool empty() const { return kinds_.empty(); }
  std::uint64_t count() const;
  const std::map<std::string, ErrorGroup, std::less<>>& kinds() const { return kinds_; }

 private:
  std::map<std::string, ErrorGroup, std::less<>> kinds_;
};

// The counts of a run, or of one thread of it. Not thread-safe.
struct Tally {
  struct DecisionCounts {
    std::uint64_t allowed = 0;
    std::uint64_t refused = 0;
  };

  LatencyHistogram latency{};  // of requests after the warm-up
  std::array<DecisionCounts, kVerbNames.size()> decided{};
  std::uint64_t answers = 0;     // decisions after the warm-up
  std::uint64_t unanswered = 0;  // sent, without a reply at the end
  std::uint64_t unsent = 0;      // due, and never sent
  ErrorCounts errors{};          // of all requests, warm-up included
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t admitted_ever = 0;  // allowed takes, warm-up included
  Nanos last_answer{0};             // time since the start

  void merge(const Tally& other);
};

}  // namespace weir::cli::bench
