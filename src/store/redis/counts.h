#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "store/count.h"
#include "weir/time.h"

namespace weir::store::redis {

// How long answers took: bucket i counts those below 2^i × 16 µs, the last one all the others.
inline constexpr std::size_t kLatencyBuckets = 16;
constexpr Nanos latency_bound(std::size_t bucket) { return Nanos{16'000} * (1 << bucket); }
constexpr std::size_t latency_bucket(Nanos took) {
  const auto units = static_cast<std::uint64_t>(took.count() < 0 ? 0 : took.count() / 16'000);
  const auto bucket = static_cast<std::size_t>(std::bit_width(units));
  return bucket < kLatencyBuckets ? bucket : kLatencyBuckets - 1;
}

// What one link has done so far, and how it is.
struct LinkCounts {
  Count calls{};          // asked, the cached refusals aside
  Count flushes{};        // round trips: sends with something in them
  Count flushed_calls{};  // commands in them: by the round trips, the size of a batch
  Count connects{};
  Count refused_by_cache{};
  Count timeouts{};       // calls without an answer in time
  Count unavailable{};    // calls without an answer for another reason
  Count misconfigured{};  // calls that were answered with a mistake in the configuration
  Count connected{};      // servers, now
  Count breaker_open{};   // the same
  Count redirections{};   // calls that one node of a cluster has sent to another
  Count maps{};           // of the slots of a cluster that were read
  Count given_back{};     // parts of questions about several slots that were taken in vain
  std::array<Count, kLatencyBuckets> latency{};
  Count latency_sum{};  // in nanoseconds
};

// Who is told what operators should know. Words that repeat are its to leave out.
enum class LogLevel : std::uint8_t { info, warning, error };
using Log = std::function<void(LogLevel, std::string_view)>;

}  // namespace weir::store::redis
