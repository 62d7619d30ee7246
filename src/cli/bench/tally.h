#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "cli/bench/answer.h"
#include "cli/bench/histogram.h"
#include "cli/bench/plan.h"

namespace weir::cli::bench {

// Errors by kind, with the words of the first of each. Kinds come from the daemon: there are only
// so many, the others count as one.
class Errors {
 public:
  struct Entry {
    std::uint64_t count = 0;
    std::string example{};
  };
  static constexpr std::size_t kMostKinds = 16;
  static constexpr std::size_t kLongestExample = 200;

  void add(std::string_view kind, std::string_view example, std::uint64_t count = 1);
  void merge(const Errors& other);

  bool empty() const { return kinds_.empty(); }
  std::uint64_t count() const;
  const std::map<std::string, Entry, std::less<>>& kinds() const { return kinds_; }

 private:
  std::map<std::string, Entry, std::less<>> kinds_;
};

// What came of requests.
struct Tally {
  struct Decided {
    std::uint64_t allowed = 0;
    std::uint64_t refused = 0;
  };

  Histogram latency{};  // of requests behind the warm-up
  std::array<Decided, kVerbNames.size()> decided{};
  std::uint64_t answers = 0;     // decisions, behind the warm-up
  std::uint64_t unanswered = 0;  // sent, and left when it ended
  std::uint64_t unsent = 0;      // due, and never sent
  Errors errors{};               // of all requests
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t admitted_ever = 0;  // takes that passed, with those of the warm-up
  Nanos last_answer{0};             // when, since the start

  void merge(const Tally& other);
};

}  // namespace weir::cli::bench
