#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "wire/exposition.h"

namespace weir::gateway {

// How often something took how long. Thread-safe.
class Durations {
 public:
  // Upper bounds, in seconds.
  static constexpr std::array kBounds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                      0.1,   0.25,   0.5,   1.0,  2.5,   10.0};

  void add(std::chrono::nanoseconds time) noexcept;
  // As the family that was last begun, under one label.
  void append_to(wire::Exposition& to, std::string_view label, std::string_view value) const;

 private:
  std::array<std::atomic<std::uint64_t>, kBounds.size() + 1> counts_{};
  std::atomic<std::uint64_t> nanos_{0};
};

// What a route's limits had to say.
enum class Ruling : std::uint8_t {
  unlimited,  // the route limits nothing, or the request has no key and that is allowed
  allowed,
  refused,
  empty_key,  // refused because of that
  degraded,   // the store could not be asked, whatever came of it
  failed,     // there was no decision
};
inline constexpr std::array<std::string_view, 6> kRulingNames{"unlimited", "allowed",  "refused",
                                                              "empty_key", "degraded", "failed"};

struct RouteCounts {
  std::array<std::atomic<std::uint64_t>, 5> answers{};  // by the status' first digit
  std::atomic<std::uint64_t> abandoned{0};              // the client went away before
  std::array<std::atomic<std::uint64_t>, kRulingNames.size()> rulings{};
  std::atomic<std::int64_t> in_flight{0};
  std::atomic<std::int64_t> queued{0};  // wait for their turn
  std::atomic<std::uint64_t> queue_overflows{0};
  Durations waits{};  // of those that had to
  Durations times{};  // from the head of a request to the end of its answer
};

enum class ServerFailure : std::uint8_t {
  connect,  // refused, unreachable or not in time
  reset,    // lost before the answer was whole
  timeout,  // silent for too long
  garbage,  // what came was no HTTP
};
inline constexpr std::array<std::string_view, 4> kServerFailureNames{"connect", "reset", "timeout",
                                                                     "garbage"};

struct ServerCounts {
  std::atomic<std::uint64_t> requests{0};
  std::array<std::atomic<std::uint64_t>, kServerFailureNames.size()> failures{};
  std::atomic<std::uint64_t> retries{0};      // requests that were sent elsewhere
  std::atomic<std::uint64_t> connections{0};  // that were made
  std::atomic<std::uint64_t> ejections{0};
  std::atomic<bool> up{true};
  Durations times{};  // from sending a request to the head of the answer
};

// All of them. What a configuration has named once is kept: reloading a file loses no count.
// Thread-safe.
class Counts {
 public:
  RouteCounts& route(const std::string& name);
  ServerCounts& server(const std::string& name);

  std::atomic<std::uint64_t> unrouted{0};   // no route fits: 404, or 400 if two do
  std::atomic<std::uint64_t> malformed{0};  // heads that were refused
  std::atomic<std::uint64_t> tunnels{0};    // upgraded connections, in all
  std::atomic<std::uint64_t> unlogged{0};   // lines of the log for which there was no room

  void append_to(wire::Exposition& to) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<RouteCounts>> routes_;
  std::map<std::string, std::unique_ptr<ServerCounts>> servers_;
};

}  // namespace weir::gateway
