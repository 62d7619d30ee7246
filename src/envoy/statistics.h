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

// The result of one descriptor of a request.
struct DescriptorHits {
  std::uint64_t hits = 0;
  std::uint64_t limit = 0;
  std::uint64_t before = 0;  // count before this request, at most the limit
  bool over = false;
  bool counts_when_over = false;  // refused hits are counted as well
};

// The counters of one rule. Thread-safe.
struct RuleStatistics {
  void add(const DescriptorHits& hits, bool shadow) noexcept;
  RuleCounts counts(std::string key) const;

  std::atomic<std::uint64_t> total{0};
  std::atomic<std::uint64_t> over{0};
  std::atomic<std::uint64_t> near{0};
  std::atomic<std::uint64_t> within{0};
  std::atomic<std::uint64_t> shadow{0};
};

// The counters of all rules. Thread-safe.
class Statistics {
 public:
  using ByRuleNumber = std::vector<std::shared_ptr<RuleStatistics>>;  // by the rule's number

  // Replaces the rules. A rule with a known name keeps its counters.
  ByRuleNumber use(const RuleSet& rules);

  // The counters for names that only requests have: values of detailed metrics, and limits of
  // requests. The number and the length of names are bounded; all other names share kOthers.
  static constexpr std::size_t kMaxNames = 1'000;
  static constexpr std::size_t kMaxNameBytes = 256;
  static constexpr const char* kOthers = "(others)";
  RuleStatistics& named(const std::string& key);

  std::vector<RuleCounts> counts() const;

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::string, std::shared_ptr<RuleStatistics>> by_name_;
  std::map<std::string, std::unique_ptr<RuleStatistics>> by_request_name_;
};

}  // namespace weir::envoy
