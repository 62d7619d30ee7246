#pragma once

#include "core/cell.h"
#include "core/state.h"
#include "weir/engine.h"

namespace weir {
inline namespace v0 {

// What users of an engine have no business with.
struct detail::EngineAccess {
  // For redis-cell's command: keys of their own, whatever the parameters.
  static Verdict throttle(Engine& engine, const core::Cell& limit, std::string_view key,
                          Permits permits);

  // For timelines. Lets the key of the request start with `state` under the limit at `position`.
  static void start_with(Engine& engine, const Request& request, std::size_t position,
                         const core::State& state);
};

}  // namespace v0
}  // namespace weir
