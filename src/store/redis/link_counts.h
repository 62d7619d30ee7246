#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "store/single_writer_counter.h"
#include "weir/time.h"

namespace weir::store::redis {

// The histogram of response times: bucket i counts those below 2^i × 16 µs and not in a lower
// bucket; the last one counts all others.
inline constexpr std::size_t kLatencyBuckets = 16;
constexpr Nanos latency_bound(std::size_t bucket) { return Nanos{16'000} * (1 << bucket); }
constexpr std::size_t latency_bucket(Nanos took) {
  const auto units = static_cast<std::uint64_t>(took.count() < 0 ? 0 : took.count() / 16'000);
  const auto bucket = static_cast<std::size_t>(std::bit_width(units));
  return bucket < kLatencyBuckets ? bucket : kLatencyBuckets - 1;
}

// Statistics of one link: counters, and gauges where noted. The link's thread writes them; any
// thread may read them.
struct LinkCounts {
  SingleWriterCounter calls{};          // without those answered by the denial cache
  SingleWriterCounter flushes{};        // non-empty writes to a server, that is, round trips
  SingleWriterCounter flushed_calls{};  // commands in them; divided by flushes: the mean batch size
  SingleWriterCounter connects{};
  SingleWriterCounter refused_by_cache{};
  SingleWriterCounter timeouts{};       // calls without a reply in time
  SingleWriterCounter unavailable{};    // calls without a reply for another reason
  SingleWriterCounter misconfigured{};  // calls that failed because of the configuration
  SingleWriterCounter connected{};      // gauge: connected servers
  SingleWriterCounter breaker_open{};   // gauge: servers with an open circuit breaker
  SingleWriterCounter redirections{};   // calls that were sent to another node of a cluster
  SingleWriterCounter maps{};           // slot maps of a cluster that were read
  SingleWriterCounter given_back{};     // slot queries undone because another slot denied or failed
  std::array<SingleWriterCounter, kLatencyBuckets> latency{};
  SingleWriterCounter latency_sum{};  // in nanoseconds
};

// Receives messages for operators, on the link's thread. It is responsible for suppressing repeats.
enum class LinkLogLevel : std::uint8_t { info, warning, error };
using LogCallback = std::function<void(LinkLogLevel, std::string_view)>;

}  // namespace weir::store::redis
