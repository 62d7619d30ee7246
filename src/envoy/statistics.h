#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

#include "envoy/rules.h"
#include "envoy/service.h"

namespace weir::envoy {

// What one descriptor of a call came to.
struct Hits {
  std::uint64_t hits = 0;
  std::uint64_t limit = 0;
  std::uint64_t before = 0;  // counted before it, at most the limit
  bool over = false;
  bool counts_when_over = false;  // what is refused is counted, too
};

// What is counted of one rule.
struct RuleStatistics {
  void add(const Hits& hits, bool shadow) noexcept;
  RuleCounts counts(std::string key) const;

  std::atomic<std::uint64_t> total{0};
  std::atomic<std::uint64_t> over{0};
  std::atomic<std::uint64_t> near{0};
  std::atomic<std::uint64_t> within{0};
  std::atomic<std::uint64_t> shadow{0};
};

// What is counted of all rules. Thread-safe.
class Statistics {
 public:
  using OfRules = std::vector<std::shared_ptr<RuleStatistics>>;  // by number

  // Those of other rules from now on: what goes by the same name counts on.
  OfRules use(const Rules& rules);

  // Of what only calls have a name for: the values of detailed metrics, limits that come along.
  // There is room for so many, of so many bytes; what has none counts together.
  static constexpr std::size_t kMostNamed = 1'000;
  static constexpr std::size_t kLongestNamed = 256;
  static constexpr const char* kOthers = "(others)";
  RuleStatistics& named(const std::string& key);

  std::vector<RuleCounts> counts() const;

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::string, std::shared_ptr<RuleStatistics>> of_rules_;
  std::map<std::string, std::unique_ptr<RuleStatistics>> named_;
};

}  // namespace weir::envoy
