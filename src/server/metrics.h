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

// A number that one thread counts and others read.
class Counter {
 public:
  void add(std::uint64_t more) noexcept {
    count_.store(count_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
  std::uint64_t read() const noexcept { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> count_{0};
};

// Where a request came in.
enum class DoorName : std::uint8_t { resp, http, grpc };
inline constexpr std::size_t kDoorNames = 3;

struct MetricsOptions {
  bool on = true;
  bool top = true;  // keys, too
  // For the minutes in which keys are counted. Must outlive the metrics.
  const Clock* clock = &system_clock();
};

// What was decided under a policy since the start, and who it was that asked most of late.
struct TopOfPolicy {
  std::uint64_t allowed = 0;
  std::uint64_t refused = 0;
  std::vector<HeavyHitter> top_allowed{};
  std::vector<HeavyHitter> top_refused{};
};

struct Top {
  std::int64_t seconds = 0;  // that the keys are of
  std::int64_t uptime = 0;   // in seconds
  std::map<std::string_view, TopOfPolicy> policies{};
};

// What was decided and how long it took. Every thread counts for itself, in memory that no other
// thread writes to; whoever asks adds it up. There are as many series as policies have limits,
// whatever keys are asked for; of these only the most frequent are known, and only of late. What
// there is no memory to count is not counted.
// Thread-safe.
class Metrics final : public DecisionSink {
 public:
  explicit Metrics(const MetricsOptions& options = {});
  ~Metrics() override;

  bool on() const { return options_.on; }
  bool counts_keys() const { return options_.on && options_.top; }

  void on_decision(const DecisionEvent& event) noexcept override;
  // Requests that came together, and the time from when they were read to when their answers were
  // ready.
  void on_requests(DoorName door, std::uint64_t count, std::chrono::nanoseconds took) noexcept;

  void append_to(Exposition& exposition) const;
  // `most` keys of each policy that was asked for since the start, or only of that one.
  Top top(std::size_t most, std::optional<std::string_view> only = std::nullopt) const;

  // Upper bounds of the histogram's buckets, in seconds.
  static constexpr std::array kBounds{0.000001, 0.0000025, 0.000005, 0.00001, 0.000025, 0.00005,
                                      0.0001,   0.00025,   0.0005,   0.001,   0.01,     0.1};

 private:
  struct LimitCounts {
    std::string_view name;
    Counter refused;
    Counter would_have;  // a shadow that would have refused
  };
  struct PolicyCounts {
    std::string_view name;
    std::array<Counter, 3> outcomes{};  // by Outcome
    Counter degraded;
    Counter blocked;
    std::deque<LimitCounts> limits{};  // that have refused
  };
  struct Histogram {
    std::array<Counter, kBounds.size() + 1> buckets{};
    Counter nanos;
  };
  // What one thread has counted. It alone adds to it; what is there may be read by all who hold
  // the mutex.
  struct Shard {
    Shard(const TopKeysTime& time, std::uint64_t number, bool counts_keys)
        : until_counted(counts_keys ? 1 : UINT64_MAX), keys(time, number) {}

    std::uint64_t until_counted;  // decisions until the next one whose key is counted
    TopKeys keys;
    std::mutex growing;
    std::deque<PolicyCounts> policies;
    std::unordered_map<const char*, PolicyCounts*> by_name;  // names live as long as the engine
    PolicyCounts* last = nullptr;
    std::array<Histogram, kDoorNames> doors{};

    // (Mostly the one that was asked for before.)
    PolicyCounts& policy(std::string_view name) {
      const bool is_last = last != nullptr && last->name.data() == name.data();
      return is_last ? *last : another_policy(name);
    }
    PolicyCounts& another_policy(std::string_view name);
    LimitCounts& limit(PolicyCounts& policy, std::string_view name);
  };
  struct Sums;

  Shard& shard();
  void count(const DecisionEvent& event);
  static void count_refusals(Shard& own, PolicyCounts& policy, const DecisionEvent& event);
  Sums sums() const;

  const MetricsOptions options_;
  const TopKeysTime time_;
  const std::uint64_t id_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

// Measures how long requests that came together take.
class Timed {
 public:
  Timed(Metrics& metrics, DoorName door) : metrics_(metrics), door_(door) {}
  ~Timed() {
    if (count_ > 0 && metrics_.on()) metrics_.on_requests(door_, count_, Clock::now() - began_);
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

  void count_one() { ++count_; }
  // Whether it is time for others to be served. (A look at the clock: not for each take.)
  bool is_long() {
    const Clock::time_point now = Clock::now();
    if (began_ == Clock::time_point{}) began_ = now;
    return now - began_ >= net::Protocol::kLongest;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Metrics& metrics_;
  const DoorName door_;
  Clock::time_point began_ = metrics_.on() ? Clock::now() : Clock::time_point{};
  std::uint64_t count_ = 0;
};

}  // namespace weir::server
