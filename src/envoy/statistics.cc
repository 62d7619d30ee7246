#include "envoy/statistics.h"

#include <algorithm>
#include <mutex>

#include "base/utf8.h"

namespace weir::envoy {

namespace {

void add_to(std::atomic<std::uint64_t>& count, std::uint64_t more) noexcept {
  if (more != 0) count.fetch_add(more, std::memory_order_relaxed);
}

// The number of permits between `from` and `to` above `threshold`.
std::uint64_t above(std::uint64_t threshold, std::uint64_t from, std::uint64_t to) {
  return to <= threshold ? 0 : to - std::max(from, threshold);
}

template <typename Use>
void for_each_rule(const DescriptorNode& node, const Use& use) {
  if (node.rule) use(*node.rule);
  for (const auto& child : node.children) for_each_rule(*child, use);
}

}  // namespace

void RuleStatistics::add(const DescriptorHits& hits, bool is_shadow) noexcept {
  const std::uint64_t nearly = hits.limit / 5 * 4 + hits.limit % 5 * 4 / 5;
  add_to(total, hits.hits);
  if (!hits.over) {
    add_to(within, hits.hits);
    add_to(near, above(nearly, hits.before, hits.before + hits.hits));
    return;
  }
  // If refused hits are counted, some of them may have been within the limit.
  const std::uint64_t fitted =
      hits.counts_when_over ? hits.limit - std::min(hits.before, hits.limit) : 0;
  const std::uint64_t beyond = hits.hits - std::min(fitted, hits.hits);
  add_to(over, beyond);
  if (fitted > 0) add_to(near, above(nearly, hits.before, hits.limit));
  if (is_shadow) add_to(shadow, beyond);
}

RuleCounts RuleStatistics::counts(std::string key) const {
  constexpr auto relaxed = std::memory_order_relaxed;
  return {.key = std::move(key),
          .total = total.load(relaxed),
          .over = over.load(relaxed),
          .near = near.load(relaxed),
          .within = within.load(relaxed),
          .shadow = shadow.load(relaxed)};
}

Statistics::ByRuleNumber Statistics::use(const RuleSet& rules) {
  const std::lock_guard lock(mutex_);
  decltype(by_name_) next;
  ByRuleNumber numbered(rules.count);
  for (const auto& [name, domain] : rules.domains) {
    for_each_rule(domain.root, [&](const DescriptorRule& rule) {
      auto& statistics = next[rule.counted_as];
      if (statistics == nullptr) {
        const auto before = by_name_.find(rule.counted_as);
        statistics = before != by_name_.end() ? before->second : std::make_shared<RuleStatistics>();
      }
      numbered[rule.number] = statistics;
    });
  }
  by_name_ = std::move(next);
  return numbered;
}

RuleStatistics& Statistics::named(const std::string& key) {
  {
    const std::shared_lock lock(mutex_);
    const auto found = by_request_name_.find(key);
    if (found != by_request_name_.end()) return *found->second;
  }
  const std::lock_guard lock(mutex_);
  const bool has_room =
      by_request_name_.size() < kMaxNames && key.size() <= kMaxNameBytes && is_utf8(key);
  auto& statistics = by_request_name_[has_room ? key : kOthers];
  if (statistics == nullptr) statistics = std::make_unique<RuleStatistics>();
  return *statistics;
}

std::vector<RuleCounts> Statistics::counts() const {
  const std::shared_lock lock(mutex_);
  std::map<std::string, RuleCounts> all;
  const auto add = [&](const std::string& key, const RuleStatistics& statistics) {
    const RuleCounts more = statistics.counts(key);
    RuleCounts& sum = all[key];
    sum.key = key;
    sum.total += more.total;
    sum.over += more.over;
    sum.near += more.near;
    sum.within += more.within;
    sum.shadow += more.shadow;
  };
  for (const auto& [key, statistics] : by_name_) add(key, *statistics);
  for (const auto& [key, statistics] : by_request_name_) add(key, *statistics);
  std::vector<RuleCounts> counts;
  for (auto& [key, sum] : all) counts.push_back(std::move(sum));
  return counts;
}

}  // namespace weir::envoy
