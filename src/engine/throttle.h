#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/memory/table.h"
#include "weir/engine.h"

namespace weir::engine {

// A limit that comes with a call: no policy knows it.
struct Throttle {
  core::Limit limit;
  core::Ask ask{};
  std::uint64_t identity = 0;  // by which its usage is known on this node
  std::string tail{};          // of its keys' names on the fleet
  std::string error{};         // why it cannot be asked

  static Throttle of(const core::Limit& limit, Permits permits, std::optional<Nanos> max_wait);
  // For redis-cell's command: keys of their own, whatever the parameters.
  static Throttle of(const core::RedisCell& limit, Permits permits);

  // Its item in a table with that seed, or why there is none. Borrows the limit.
  Result<store::Item, Error> item(std::uint64_t seed, std::string_view key) const;
};

// The answer, as those who asked are told it.
Verdict throttled(const core::Decision& decision);

}  // namespace weir::engine
