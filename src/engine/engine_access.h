#pragma once

#include "core/state.h"
#include "weir/engine.h"

namespace weir {
inline namespace v0 {

// For timelines: what users of an engine have no business with.
struct detail::EngineAccess {
  // Lets the key of the request start with `state` under the limit at `position`.
  static void start_with(Engine& engine, const Request& request, std::size_t position,
                         const core::State& state);
};

}  // namespace v0
}  // namespace weir
