#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/exposition.h"
#include "weir/engine.h"

namespace weir::server {

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
enum class DoorName : std::uint8_t { resp, http };
inline constexpr std::size_t kDoorNames = 2;

// What was decided and how long it took. Every thread counts for itself, in memory that no other
// thread writes to; whoever asks adds it up. There are as many series as policies have limits,
// whatever keys are asked for.
// Thread-safe.
class Metrics final : public DecisionSink {
 public:
  Metrics();
  ~Metrics() override;

  void on_decision(const DecisionEvent& event) noexcept override;
  // Requests that came together, and the time from when they were read to when their answers were
  // ready.
  void on_requests(DoorName door, std::uint64_t count, std::chrono::nanoseconds took) noexcept;

  void append_to(Exposition& exposition) const;

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
    std::mutex growing;
    std::deque<PolicyCounts> policies;
    std::unordered_map<const char*, PolicyCounts*> by_name;  // names live as long as the engine
    PolicyCounts* last = nullptr;
    std::array<Histogram, kDoorNames> doors{};

    PolicyCounts& policy(std::string_view name);
    LimitCounts& limit(PolicyCounts& policy, std::string_view name);
  };
  struct Sums;

  Shard& shard() noexcept;
  Sums sums() const;

  const std::uint64_t id_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

// Measures how long requests that came together take.
class Timed {
 public:
  Timed(Metrics& metrics, DoorName door) : metrics_(metrics), door_(door) {}
  ~Timed() {
    if (count_ > 0) metrics_.on_requests(door_, count_, Clock::now() - began_);
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

  void count_one() { ++count_; }

 private:
  using Clock = std::chrono::steady_clock;
  Metrics& metrics_;
  const DoorName door_;
  const Clock::time_point began_ = Clock::now();
  std::uint64_t count_ = 0;
};

}  // namespace weir::server
