#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "net/protocol.h"
#include "server/top_keys.h"
#include "weir/engine.h"
#include "wire/exposition.h"

namespace weir::server {

using wire::Exposition;

// A number that one thread increases and any thread reads.
class Counter {
 public:
  void add(std::uint64_t more) noexcept {
    count_.store(count_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
  std::uint64_t read() const noexcept { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> count_{0};
};

// The listener that a request came in by.
enum class ListenerKind : std::uint8_t { resp, http, grpc };
inline constexpr std::size_t kListenerKinds = 3;

struct MetricsOptions {
  bool on = true;
  bool top = true;  // count the busiest keys as well
  // The clock of the minutes in which keys are counted. Must outlive the metrics.
  const Clock* clock = &system_clock();
};

// The decisions under a policy since the start, and its busiest keys of late.
struct PolicyTop {
  std::uint64_t allowed = 0;
  std::uint64_t refused = 0;
  std::vector<HeavyHitter> top_allowed{};
  std::vector<HeavyHitter> top_refused{};
};

struct TopReport {
  std::int64_t seconds = 0;  // the time that the keys were counted over
  std::int64_t uptime = 0;   // in seconds
  std::map<std::string_view, PolicyTop> policies{};
};

// Counts decisions and measures requests. Each thread counts in a shard that no other thread writes
// to; reading adds the shards up. The number of series depends on the policies and their limits,
// not on the keys: only the most frequent keys of late are counted, in sketches. Events for which
// no memory can be allocated are not counted.
// Thread-safe.
class Metrics final : public DecisionSink {
 public:
  explicit Metrics(const MetricsOptions& options = {});
  ~Metrics() override;

  bool is_on() const { return options_.on; }
  bool counts_keys() const { return options_.on && options_.top; }

  void on_decision(const DecisionEvent& event) noexcept override;
  // Counts requests that were handled in one turn; `took` is from when they were read until their
  // responses were ready.
  void on_requests(ListenerKind listener, std::uint64_t count,
                   std::chrono::nanoseconds took) noexcept;

  void append_to(Exposition& exposition) const;
  // At most `max_keys` keys of each policy with calls since the start, or of policy `only`.
  TopReport top(std::size_t max_keys, std::optional<std::string_view> only = std::nullopt) const;

  // Upper bounds of the histogram's buckets, in seconds.
  static constexpr std::array kBounds{0.000001, 0.0000025, 0.000005, 0.00001, 0.000025, 0.00005,
                                      0.0001,   0.00025,   0.0005,   0.001,   0.01,     0.1};

 private:
  struct LimitCounts {
    std::string_view name;
    Counter refused;
    Counter would_have;  // a shadow limit that would have refused
  };
  struct PolicyCounts {
    std::string_view name;
    std::array<Counter, 3> outcomes{};  // by Outcome
    Counter degraded;
    Counter blocked;
    std::deque<LimitCounts> limits{};  // only those that have refused
  };
  struct DurationHistogram {
    std::array<Counter, kBounds.size() + 1> buckets{};
    Counter nanos;
  };
  // The counts of one thread, which alone adds to them. Others read the containers with `growing`
  // held.
  struct Shard {
    Shard(const TopKeysClock& clock, std::uint64_t number, bool counts_keys)
        : until_counted(counts_keys ? 1 : UINT64_MAX), keys(clock, number) {}

    std::uint64_t until_counted;  // decisions until the next one whose key is counted
    TopKeys keys;
    std::mutex growing;
    std::deque<PolicyCounts> policies;
    std::unordered_map<const char*, PolicyCounts*> by_name;  // names live as long as the engine
    PolicyCounts* last = nullptr;                            // found by `policy`
    std::array<DurationHistogram, kListenerKinds> listeners{};

    // Most calls are for the same policy as the one before.
    PolicyCounts& policy(std::string_view name) {
      const bool is_last = last != nullptr && last->name.data() == name.data();
      return is_last ? *last : find_or_add_policy(name);
    }
    PolicyCounts& find_or_add_policy(std::string_view name);
    LimitCounts& limit(PolicyCounts& policy, std::string_view name);
  };
  struct Sums;

  Shard& shard();
  void count(const DecisionEvent& event);
  static void count_refusals(Shard& own, PolicyCounts& policy, const DecisionEvent& event);
  Sums sums() const;

  const MetricsOptions options_;
  const TopKeysClock clock_;
  const std::uint64_t id_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

// Measures one turn of a connection: the requests handled in it, and how long they took. Reports
// both to the metrics when it is destroyed.
class RequestTimer {
 public:
  RequestTimer(Metrics& metrics, ListenerKind listener) : metrics_(metrics), listener_(listener) {}
  ~RequestTimer() {
    if (count_ > 0 && metrics_.is_on()) {
      metrics_.on_requests(listener_, count_, Clock::now() - began_);
    }
  }
  RequestTimer(const RequestTimer&) = delete;
  RequestTimer& operator=(const RequestTimer&) = delete;

  void count_one() { ++count_; }
  // True once the turn has lasted net::Protocol::kTimeSlice: other connections are due. Reads the
  // clock, so it is not called for each take.
  bool has_expired() {
    const Clock::time_point now = Clock::now();
    if (began_ == Clock::time_point{}) began_ = now;
    return now - began_ >= net::Protocol::kTimeSlice;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Metrics& metrics_;
  const ListenerKind listener_;
  Clock::time_point began_ = metrics_.is_on() ? Clock::now() : Clock::time_point{};
  std::uint64_t count_ = 0;
};

}  // namespace weir::server
