#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/time.h"

// What Envoy asks, and what it is answered: the messages of envoy.service.ratelimit.v3, without
// their encoding. Texts of a call are borrowed for its duration.

namespace weir::envoy {

// With the numbers of the wire. (What a call brings along has no week.)
enum class Unit : std::uint8_t { unknown, second, minute, hour, day, month, year, week };
enum class Code : std::uint8_t { unknown, ok, over_limit };

struct Entry {
  std::string_view key;
  std::string_view value;
};

// A limit that comes with the call.
struct LimitOverride {
  std::uint32_t requests_per_unit = 0;
  Unit unit = Unit::unknown;
};

struct Descriptor {
  std::vector<Entry> entries;
  std::optional<LimitOverride> limit{};
  std::optional<std::uint64_t> hits{};  // instead of the call's; 0: only look
  bool gives_back = false;              // is_negative_hits
};

// Descriptors that a call may have. (Each is answered, also if it has no limit, and one takes two
// bytes of a message.)
inline constexpr std::size_t kMostDescriptors = 10'000;

struct Call {
  std::string_view domain;
  std::vector<Descriptor> descriptors;
  std::uint32_t hits = 0;  // of each descriptor that has none of its own; 0 means 1
};

struct CurrentLimit {
  std::uint32_t requests_per_unit = 0;
  Unit unit = Unit::unknown;
  std::string name;
};

// Of one descriptor.
struct Status {
  Code code = Code::ok;
  std::optional<CurrentLimit> limit{};
  std::uint32_t remaining = 0;
  std::optional<Nanos> until_reset{};
};

struct Header {
  std::string key;
  std::string value;
};

struct Answer {
  Code overall = Code::ok;
  std::vector<Status> statuses;  // in the order of the descriptors
  std::vector<Header> response_headers{};
  std::string metadata{};  // dynamic_metadata as a JSON object; empty: none
};

// Why there is no answer.
struct Failure {
  std::string text;
  bool store = false;  // nothing is wrong with the call: the store could not be asked
};

}  // namespace weir::envoy
