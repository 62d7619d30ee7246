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

// What all threads agree on when they count keys: when it is, and how keys are hashed.
class TopKeysTime {
 public:
  explicit TopKeysTime(const Clock& clock);

  std::int64_t second() const noexcept;  // since the start
  static std::int64_t minute_of(std::int64_t second) noexcept { return second / 60; }
  // How many seconds this minute and the last one cover so far.
  static std::int64_t covered(std::int64_t second) noexcept;
  std::uint64_t seed() const noexcept { return seed_; }

 private:
  const Clock& clock_;
  const Instant start_;
  const std::uint64_t seed_;  // strangers choose keys, and must not make them collide
};

// Which of its decisions a thread counts: all while they are few, and a random one in sixteen
// above that. (Not every sixteenth: clients who send commands together repeat themselves.)
class Sampler {
 public:
  static constexpr int kAllInASecond = 10'000;
  static constexpr std::uint64_t kOneIn = 16;

  explicit Sampler(std::uint64_t seed) : random_(seed | 1) {}

  // What the decision that is counted now stands for.
  std::uint64_t weight() const noexcept { return sampling_ ? kOneIn : 1; }
  // How many decisions later the next one is counted.
  std::uint64_t next(std::int64_t second) noexcept;

 private:
  std::uint64_t skip() noexcept;

  std::uint64_t random_;
  std::int64_t second_ = -1;
  int left_ = kAllInASecond;
  bool sampling_ = false;
};

// The keys of one policy that were allowed, or refused, most often in this minute and the last.
class TwoMinutes {
 public:
  HeavyHitters& at(std::int64_t minute);
  // Copies of what was counted for the minute and the one before it.
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

// The keys that one thread was asked for most, by policy. That thread counts, any other may look.
class TopKeys {
 public:
  static constexpr std::size_t kCounters = 128;  // keys of a policy that are followed
  static constexpr std::size_t kPolicies = 256;  // that have counters of their own
  // The policies beyond these, together. Their keys have the policy's name before them.
  static constexpr std::string_view kOthers = "(others)";

  // `number` tells threads apart.
  TopKeys(const TopKeysTime& time, std::uint64_t number)
      : time_(time), sampler_(time.seed() + number * 0x9e37'79b9'7f4a'7c15) {}

  // Counts a decision. How many decisions later it wants to be told of the next one.
  std::uint64_t count(const DecisionEvent& event);

  // By policy, what is not over at that second. Keeps the thread from counting for no longer than
  // it takes to copy one policy's.
  void append_to(std::map<std::string_view, KeySketches>& all, std::int64_t second) const;

 private:
  struct Policy {
    TwoMinutes allowed{};
    TwoMinutes refused{};
  };

  void turn_to(std::int64_t minute);
  Policy& policy(std::string_view& name);

  const TopKeysTime& time_;
  mutable std::mutex mutex_;
  Sampler sampler_;
  std::int64_t minute_ = 0;
  std::map<std::string_view, Policy> policies_;  // names live as long as the engine
};

}  // namespace weir::server
