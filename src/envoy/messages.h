#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/time.h"

// The messages of envoy.service.ratelimit.v3 without their encoding. A request borrows its texts.

namespace weir::envoy {

// Units with their numbers on the wire. A request has no week; a configuration may.
enum class Unit : std::uint8_t { unknown, second, minute, hour, day, month, year, week };
enum class Code : std::uint8_t { unknown, ok, over_limit };

struct DescriptorEntry {
  std::string_view key;
  std::string_view value;
};

// A limit that a descriptor brings along; it replaces the configured one.
struct LimitOverride {
  std::uint32_t requests_per_unit = 0;
  Unit unit = Unit::unknown;
};

struct RateLimitDescriptor {
  std::vector<DescriptorEntry> entries;
  std::optional<LimitOverride> limit{};
  std::optional<std::uint64_t> hits{};  // replaces the request's; 0: a peek
  bool gives_back = false;              // is_negative_hits
};

// Maximum number of descriptors of a request. Each gets a status even without a limit, and takes
// only two bytes of a message.
inline constexpr std::size_t kMaxDescriptors = 10'000;

struct RateLimitRequest {
  std::string_view domain;
  std::vector<RateLimitDescriptor> descriptors;
  std::uint32_t hits = 0;  // for descriptors without a number of their own; 0 means 1
};

struct CurrentLimit {
  std::uint32_t requests_per_unit = 0;
  Unit unit = Unit::unknown;
  std::string name;
};

// The status of one descriptor.
struct DescriptorStatus {
  Code code = Code::ok;
  std::optional<CurrentLimit> limit{};
  std::uint32_t remaining = 0;
  std::optional<Nanos> until_reset{};
};

struct ResponseHeader {
  std::string key;
  std::string value;
};

struct RateLimitResponse {
  Code overall = Code::ok;
  std::vector<DescriptorStatus> statuses;  // in the order of the descriptors
  std::vector<ResponseHeader> response_headers{};
  std::string metadata{};  // dynamic_metadata as a JSON object; empty: none
};

// The reason why there is no response.
struct ServiceError {
  std::string text;
  bool store = false;  // the request is valid, but the store did not answer
};

}  // namespace weir::envoy
