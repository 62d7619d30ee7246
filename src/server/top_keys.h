#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/heavy_hitters.h"
#include "weir/engine.h"

namespace weir::server {

// The time and the hash seed that all threads share when they count keys. Thread-safe.
class TopKeysClock {
 public:
  explicit TopKeysClock(const Clock& clock);

  std::int64_t second() const noexcept;  // since the start
  static std::int64_t minute_of(std::int64_t second) noexcept { return second / 60; }
  // The seconds that the current minute and the last one cover so far.
  static std::int64_t covered(std::int64_t second) noexcept;
  std::uint64_t seed() const noexcept { return seed_; }

 private:
  const Clock& clock_;
  const Instant start_;
  const std::uint64_t seed_;  // random: clients choose keys, and must not make them collide
};

// Selects the decisions that a thread counts: all up to kUnsampledPerSecond in a second, then a
// random one in sixteen. (Not every sixteenth: pipelines of clients have patterns.)
class Sampler {
 public:
  static constexpr int kUnsampledPerSecond = 10'000;
  static constexpr std::uint64_t kSampleRate = 16;  // one in so many

  explicit Sampler(std::uint64_t seed) : random_(seed | 1) {}

  // The number of decisions that the current one stands for.
  std::uint64_t weight() const noexcept { return sampling_ ? kSampleRate : 1; }
  // The number of decisions until the next one to count.
  std::uint64_t next(std::int64_t second) noexcept;

 private:
  std::uint64_t skip() noexcept;

  std::uint64_t random_;
  std::int64_t second_ = -1;
  int left_ = kUnsampledPerSecond;
  bool sampling_ = false;
};

// Sketches of the most frequent keys of one policy, in the current minute and the one before.
class TwoMinuteSketch {
 public:
  // The sketch to count in.
  HeavyHitters& at(std::int64_t minute);
  // Appends copies of the sketches of the minute and the one before it.
  void append_to(std::vector<HeavyHitters>& sketches, std::int64_t minute) const;
  bool is_over(std::int64_t minute) const noexcept { return minute_ + 1 < minute; }

 private:
  std::int64_t minute_ = -2;
  std::unique_ptr<HeavyHitters> current_;
  std::unique_ptr<HeavyHitters> last_;
};

// Sketches of several threads, to be merged.
struct KeySketches {
  std::vector<HeavyHitters> allowed{};
  std::vector<HeavyHitters> refused{};
};

// The most frequent keys of one thread's decisions, by policy. That thread counts; any thread may
// read.
class TopKeys {
 public:
  static constexpr std::size_t kCounters = 128;  // keys in each sketch
  static constexpr std::size_t kPolicies = 256;  // with sketches of their own
  // All other policies together. Their keys are preceded by the policy's name.
  static constexpr std::string_view kOthers = "(others)";

  // `number` differs for each thread.
  TopKeys(const TopKeysClock& clock, std::uint64_t number)
      : clock_(clock), sampler_(clock.seed() + number * 0x9e37'79b9'7f4a'7c15) {}

  // Counts a decision, and returns the number of decisions until the next one to count.
  std::uint64_t count(const DecisionEvent& event);

  // Adds copies of the sketches that cover this second, by policy. Blocks the counting thread for
  // the copy of one policy's sketches at most.
  void append_to(std::map<std::string_view, KeySketches>& all, std::int64_t second) const;

 private:
  struct PolicyKeys {
    TwoMinuteSketch allowed{};
    TwoMinuteSketch refused{};
  };

  void advance_to(std::int64_t minute);
  PolicyKeys& policy(std::string_view& name);

  const TopKeysClock& clock_;
  mutable std::mutex mutex_;
  Sampler sampler_;
  std::int64_t minute_ = 0;
  std::map<std::string_view, PolicyKeys> policies_;  // names live as long as the engine
};

}  // namespace weir::server
