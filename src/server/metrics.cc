#include "server/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/out_of_memory.h"

namespace weir::server {

namespace {

constexpr std::array<std::string_view, 3> kOutcomes{"allowed", "limited", "impossible"};
constexpr std::array<std::string_view, kListenerKinds> kListenerNames{"resp", "http", "grpc"};

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

std::size_t bucket_of(double seconds) {
  const auto bound = std::ranges::lower_bound(Metrics::kBounds, seconds);
  return static_cast<std::size_t>(bound - Metrics::kBounds.begin());
}

}  // namespace

Metrics::Metrics(const MetricsOptions& options)
    : options_(options), clock_(*options.clock), id_(next_id()) {}
Metrics::~Metrics() = default;

// ---- Counting

Metrics::PolicyCounts& Metrics::Shard::find_or_add_policy(std::string_view name) {
  PolicyCounts*& found = by_name[name.data()];
  if (found == nullptr) {
    const std::lock_guard lock(growing);
    found = &policies.emplace_back();
    found->name = name;
  }
  return *(last = found);
}

Metrics::LimitCounts& Metrics::Shard::limit(PolicyCounts& policy, std::string_view name) {
  const auto same = [&](const LimitCounts& each) { return each.name.data() == name.data(); };
  const auto found = std::ranges::find_if(policy.limits, same);
  if (found != policy.limits.end()) return *found;
  const std::lock_guard lock(growing);
  LimitCounts& fresh = policy.limits.emplace_back();
  fresh.name = name;
  return fresh;
}

Metrics::Shard& Metrics::shard() {
  thread_local std::uint64_t owner_id = 0;  // of the object that `own` belongs to
  thread_local Shard* own = nullptr;
  if (owner_id != id_) [[unlikely]] {
    const std::lock_guard lock(mutex_);
    own =
        shards_.emplace_back(std::make_unique<Shard>(clock_, shards_.size(), counts_keys())).get();
    owner_id = id_;
  }
  return *own;
}

void Metrics::on_decision(const DecisionEvent& event) noexcept {
  catch_bad_alloc([&] { count(event); });
}

void Metrics::count(const DecisionEvent& event) {
  Shard& own = shard();
  PolicyCounts& policy = own.policy(event.policy);
  const Verdict& verdict = event.verdict;
  policy.outcomes[static_cast<std::size_t>(verdict.decision.outcome)].add(1);
  if (verdict.degraded) policy.degraded.add(1);
  if (verdict.blocked) policy.blocked.add(1);
  if (verdict.refusing != 0) count_refusals(own, policy, event);
  if (--own.until_counted == 0) [[unlikely]] {
    own.until_counted = 1;  // the next decision, should this one throw std::bad_alloc
    own.until_counted = own.keys.count(event);
  }
}

void Metrics::count_refusals(Shard& own, PolicyCounts& policy, const DecisionEvent& event) {
  for (std::uint32_t left = event.verdict.refusing; left != 0; left &= left - 1) {
    const auto position = static_cast<std::size_t>(std::countr_zero(left));
    LimitCounts& limit = own.limit(policy, event.limits[position]);
    (event.verdict ? limit.would_have : limit.refused).add(1);
  }
}

void Metrics::on_requests(ListenerKind listener, std::uint64_t count,
                          std::chrono::nanoseconds took) noexcept {
  catch_bad_alloc([&] {
    DurationHistogram& histogram = shard().listeners[static_cast<std::size_t>(listener)];
    histogram.buckets[bucket_of(std::chrono::duration<double>(took).count())].add(count);
    histogram.nanos.add(static_cast<std::uint64_t>(took.count()) * count);
  });
}

// ---- Adding up

struct Metrics::Sums {
  struct LimitSums {
    std::uint64_t refused = 0;
    std::uint64_t would_have = 0;
  };
  struct PolicySums {
    std::array<std::uint64_t, 3> outcomes{};
    std::uint64_t degraded = 0;
    std::uint64_t blocked = 0;
    std::map<std::string_view, LimitSums> limits{};
  };
  struct HistogramSums {
    std::array<std::uint64_t, kBounds.size() + 1> buckets{};
    double seconds = 0;
  };
  std::map<std::string_view, PolicySums> policies;
  std::array<HistogramSums, kListenerKinds> listeners{};
};

Metrics::Sums Metrics::sums() const {
  Sums sums;
  const std::lock_guard lock(mutex_);
  for (const auto& shard : shards_) {
    const std::lock_guard growing(shard->growing);
    for (const PolicyCounts& counts : shard->policies) {
      Sums::PolicySums& policy = sums.policies[counts.name];
      for (std::size_t i = 0; i < kOutcomes.size(); ++i) {
        policy.outcomes[i] += counts.outcomes[i].read();
      }
      policy.degraded += counts.degraded.read();
      policy.blocked += counts.blocked.read();
      for (const LimitCounts& limit : counts.limits) {
        policy.limits[limit.name].refused += limit.refused.read();
        policy.limits[limit.name].would_have += limit.would_have.read();
      }
    }
    for (std::size_t i = 0; i < kListenerKinds; ++i) {
      const DurationHistogram& histogram = shard->listeners[i];
      for (std::size_t b = 0; b < histogram.buckets.size(); ++b) {
        sums.listeners[i].buckets[b] += histogram.buckets[b].read();
      }
      sums.listeners[i].seconds += static_cast<double>(histogram.nanos.read()) / 1e9;
    }
  }
  return sums;
}

TopReport Metrics::top(std::size_t max_keys, std::optional<std::string_view> only) const {
  TopReport top;
  for (const auto& [name, policy] : sums().policies) {
    const auto& [allowed, limited, impossible] = policy.outcomes;
    top.policies[name] = {.allowed = allowed, .refused = limited + impossible};
  }
  top.uptime = clock_.second();
  top.seconds = TopKeysClock::covered(top.uptime);
  std::map<std::string_view, KeySketches> sketches;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& shard : shards_) shard->keys.append_to(sketches, top.uptime);
  }
  for (const auto& [name, of_policy] : sketches) {
    if (only && name != *only) continue;
    top.policies[name].top_allowed = merged(of_policy.allowed, max_keys);
    top.policies[name].top_refused = merged(of_policy.refused, max_keys);
  }
  return top;
}

void Metrics::append_to(Exposition& to) const {
  const Sums all = sums();
  to.counter("weir_decisions_total",
             "Decisions about takes and enters, by policy (empty: the limit came with the call) "
             "and outcome.");
  for (const auto& [name, policy] : all.policies) {
    for (std::size_t i = 0; i < kOutcomes.size(); ++i) {
      to.sample({{"policy", name}, {"outcome", kOutcomes[i]}}, policy.outcomes[i]);
    }
  }
  to.counter("weir_degraded_decisions_total",
             "Decisions by on_store_failure, as the store did not answer.");
  for (const auto& [name, policy] : all.policies) to.sample({{"policy", name}}, policy.degraded);
  to.counter("weir_blocked_decisions_total", "Refusals of keys that an operator has blocked.");
  for (const auto& [name, policy] : all.policies) to.sample({{"policy", name}}, policy.blocked);
  to.counter(
      "weir_limit_refusals_total",
      "Refusals by each limit. shadow=\"true\": it would have refused, and the call passed.");
  for (const auto& [name, policy] : all.policies) {
    for (const auto& [limit, counts] : policy.limits) {
      to.sample({{"policy", name}, {"limit", limit}, {"shadow", "false"}}, counts.refused);
      to.sample({{"policy", name}, {"limit", limit}, {"shadow", "true"}}, counts.would_have);
    }
  }
  to.histogram("weir_request_duration_seconds",
               "Time from reading a request until its response was ready, in seconds.");
  for (std::size_t i = 0; i < kListenerKinds; ++i) {
    std::uint64_t so_far = 0;
    for (std::size_t b = 0; b < kBounds.size(); ++b) {
      so_far += all.listeners[i].buckets[b];
      to.sample({{"listener", kListenerNames[i]}, {"le", fmt::format("{}", kBounds[b])}}, so_far,
                "_bucket");
    }
    so_far += all.listeners[i].buckets.back();
    to.sample({{"listener", kListenerNames[i]}, {"le", "+Inf"}}, so_far, "_bucket");
    to.sample({{"listener", kListenerNames[i]}}, all.listeners[i].seconds, "_sum");
    to.sample({{"listener", kListenerNames[i]}}, so_far, "_count");
  }
}

}  // namespace weir::server
